"""`__event_emitter__` and `__event_call__`: from the tool to the parent process, and back."""

import asyncio
import concurrent.futures
import inspect
import itertools
import json
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from . import text
from .wire import Wire

MAX_EVENT = 8 * 1024 * 1024


class Sent(Coroutine[Any, Any, None]):
    """What emitting returns: the event is already on its way, awaiting it is a formality.

    A coroutine by interface, so that `create_task`, `gather` and `run_coroutine_threadsafe` take it; not a real one, so
    that synchronous tools, helpers and threads may call the emitter without awaiting anything.
    """

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield

    def send(self, value: Any) -> Any:
        raise StopIteration

    def throw(self, *problem: Any) -> Any:
        raise problem[0]

    def close(self) -> None:
        """Nothing is held."""


class Unconfirmed(dict[str, Any]):
    """`{"error": …}` in place of a confirmation. False: a tool that asks `if confirmed:` takes silence for no."""

    def __bool__(self) -> bool:
        return False


class Channel:
    """One call's connection to the parent: events and questions out, answers in. Closed when the call ends."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._open = True
        self._asks: dict[int, concurrent.futures.Future[Any]] = {}
        self._ids = itertools.count()
        self._lock = threading.Lock()

    def emitter(self) -> Callable[[Any], Sent]:
        def emit(event: Any) -> Sent:
            if self._open:
                self._wire.send({"emit": plain(event)})
            return Sent()

        return _marked(emit)

    def caller(self) -> Callable[[Any], Coroutine[Any, Any, Any]]:
        async def call(event: Any) -> Any:
            asked = plain(event)
            answer = await asyncio.wrap_future(self._ask(asked))
            confirms = isinstance(asked, dict) and asked.get("type") == "confirmation"
            return Unconfirmed(answer) if confirms and isinstance(answer, dict) and "error" in answer else answer

        return call

    def _ask(self, event: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if not self._open:
                future.set_result({"error": "Client session disconnected."})
                return future
            number = next(self._ids)
            self._asks[number] = future
        self._wire.send({"ask": number, "event": event})
        return future

    def answered(self, number: int, value: Any) -> None:
        with self._lock:
            future = self._asks.pop(number, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(value)

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._asks.clear()


def plain(event: Any) -> Any:
    """Returns the event as JSON values; what JSON cannot say becomes text, as in results."""
    from . import results

    written = json.dumps(event, default=results.json_form, ensure_ascii=True, skipkeys=True)
    if len(written) > MAX_EVENT:
        raise ValueError(f"The event has {len(written)} bytes; {MAX_EVENT} is the limit.")
    return text.clean(json.loads(written))


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `iscoroutinefunction` say yes: helpers decide by it whether to await."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function
