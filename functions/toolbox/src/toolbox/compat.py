"""Adjustments that let tools written for a long-running server work in a child: asyncio, typing, typed arguments."""

import asyncio
import dataclasses
import sys
import threading
import typing
from collections.abc import Callable, Coroutine
from typing import Any

import pydantic
import typing_extensions


def install() -> None:
    """Patches the child's interpreter, once, before any tool is loaded."""
    asyncio.run = _run_anywhere(asyncio.run)
    if sys.version_info < (3, 12):
        # Pydantic cannot describe the standard library's TypedDict before 3.12; this one is the same with more detail.
        typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]


def _run_anywhere(original: Callable[..., Any]) -> Callable[..., Any]:
    """`asyncio.run` inside a running loop: on a thread of its own, instead of an error."""

    def run(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return original(main, **options)
        outcome: dict[str, Any] = {}

        def work() -> None:
            try:
                outcome["value"] = original(main, **options)
            except BaseException as problem:
                outcome["problem"] = problem

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if problem := outcome.get("problem"):
            raise problem
        return outcome["value"]

    return run


def like_mappings(value: Any) -> None:
    """Lets typed arguments be read like the dictionaries the real server passes: `item["name"]`, `Model(**item)`."""
    if isinstance(value, dict):
        inner: list[Any] = list(value.values())
    elif isinstance(value, list | tuple | set):
        inner = list(value)
    elif isinstance(value, pydantic.BaseModel):
        inner = _dress(type(value), list(type(value).model_fields), value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = _dress(type(value), [field.name for field in dataclasses.fields(value)], value)
    else:
        return
    for item in inner:
        like_mappings(item)


def _dress(cls: Any, names: list[str], value: Any) -> list[Any]:
    def item(self: Any, key: str) -> Any:
        if key in names:
            return getattr(self, key)
        raise KeyError(key)

    def get(self: Any, key: str, default: Any = None) -> Any:
        return getattr(self, key) if key in names else default

    methods: dict[str, Callable[..., Any]] = {"__getitem__": item, "get": get, "keys": lambda self: list(names)}
    for name, method in methods.items():
        if not hasattr(cls, name) and name not in names:
            setattr(cls, name, method)
    return [getattr(value, name, None) for name in names]


def shim_context(job: dict[str, Any]) -> None:
    """Tells the shim whose call this is, for its models' read access."""
    import open_webui

    open_webui.current.clear()
    open_webui.current.update(user=job.get("user") or {}, context=job.get("context") or {})
