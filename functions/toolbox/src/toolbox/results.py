"""What a function returned, as the text that the model reads and the things that are shown beside it."""

import base64
import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import re
import sys
import types
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from . import text

# A child hands over at most this much; what the caller asked for is cut from it in the parent.
LIMIT = 60 * 1024 * 1024
_IMAGE = re.compile(r"^data:image/[\w.+-]+(;[\w=.+-]+)*,\S", re.ASCII)
_DATA = re.compile(r"^data:[\w.+-]+/[\w.+-]+(;[\w=.+-]+)*,", re.ASCII)
_FAILED = ("error:", "exception:", "traceback", "http error!")


@dataclasses.dataclass
class Result:
    """One call's result in the protocol's form."""

    content: str = ""
    status: str = "completed"
    embeds: list[str] = dataclasses.field(default_factory=list)
    files: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    images: list[str] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "spilled": False}


def error(message: str) -> Result:
    """The result of a call that raised, in the form that models know from the real server."""
    return Result(json.dumps({"error": text.clean_str(message)}, indent=2, ensure_ascii=False), "failed")


def described(problem: BaseException) -> str:
    """Returns an exception's message; of a group the members' as well, because its own says nothing."""
    if isinstance(problem, SystemExit):
        return f"The tool tried to end the process (exit code {problem.code})."
    if isinstance(problem, MemoryError):
        return "The tool ran out of memory: it reached its memory limit."
    try:
        message = str(problem) or type(problem).__name__
    except BaseException:
        # The exception's own code; it is the tool's, and may do anything.
        message = type(problem).__name__
    if isinstance(problem, BaseExceptionGroup):
        message += ": " + "; ".join(described(inner) for inner in problem.exceptions)
    return message


async def collect(value: Any) -> Any:
    """Awaits what is awaitable and gathers what is generated: text pieces are joined, other items become a list."""
    while inspect.isawaitable(value):
        value = await value
    items: list[Any] = []
    size = 0
    if isinstance(value, types.AsyncGeneratorType) or (isinstance(value, AsyncIterator) and hasattr(value, "aclose")):
        async for item in value:
            size = _grown(size, item)
            items.append(item)
    elif isinstance(value, types.GeneratorType) or (isinstance(value, Iterator) and not hasattr(value, "read")):
        for item in value:
            size = _grown(size, item)
            items.append(item)
    else:
        return value
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items


def _grown(size: int, item: Any) -> int:
    size += len(item) if isinstance(item, str | bytes) else 1
    if size > LIMIT:
        raise ValueError(f"The tool generated more than {LIMIT} characters.")
    return size


def convert(name: str, value: Any) -> Result:
    """Turns a function's value into its result."""
    result = Result()
    if response := _response(value):
        value = _embed(name, response, ..., result)
    elif isinstance(value, tuple) and len(value) == 2 and (response := _response(value[0])):
        value = _embed(name, response, value[1], result)
    value = _media(value, result)
    if isinstance(value, str) and not value and result.images:
        value = f"{name}: Image file read successfully."
    result.content = text.cut(text.clean_str(_text(value)), LIMIT)
    result.embeds = [text.clean_str(embed) for embed in result.embeds]
    if _says_failed(result.content):
        result.status = "failed"
    return result


def _response(value: Any) -> Any:
    """Returns the value if it is a web response. Nobody can hold one without the library having been imported."""
    module = sys.modules.get("starlette.responses")
    return value if module is not None and isinstance(value, module.Response) else None


def _embed(name: str, response: Any, context: Any, result: Result) -> Any:
    body = bytes(getattr(response, "body", b"")).decode(getattr(response, "charset", "utf-8") or "utf-8", "replace")
    html = sys.modules["starlette.responses"].HTMLResponse
    if not isinstance(response, html) or "inline" not in response.headers.get("content-disposition", ""):
        return body if context is ... else [body, context]
    result.embeds.append(body)
    code = response.status_code
    if context is not ... and code < 400:
        return context
    if code < 400:
        status, message = "success", "Embedded UI result is active and visible to the user."
    else:
        status = "error"
        message = f"{'Client' if code < 500 else 'Server'} error {code} from embedded UI result."
        result.status = "failed"
    return {"status": status, "code": "ui_component", "message": f"{name}: {message}"}


def _media(value: Any, result: Result, above: tuple[int, ...] = ()) -> Any:
    """Takes data URIs out of the value: they are for people's eyes, and would fill the model's context."""
    if isinstance(value, str):
        if not value.startswith("data:") or not _IMAGE.match(value):
            return value
        result.images.append(value)
        return "[image]" if above else ""
    if id(value) in above:
        return "..."
    if len(above) > 20:
        return value
    above = (*above, id(value))
    if type(value) is dict:
        return {key: _media(item, result, above) for key, item in value.items()}
    if type(value) in (list, tuple):
        kept = []
        for item in value:
            if isinstance(item, str) and not _IMAGE.match(item) and _DATA.match(item):
                result.files.append({"type": "data", "content": item})
            else:
                kept.append(_media(item, result, above))
        return kept
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, enum.Enum):
        return _text(value.value)
    if isinstance(value, bool | int | float | bytes | bytearray | set | frozenset):
        return str(value)
    if isinstance(value, list | tuple):
        return _json({"results": list(value)})
    if isinstance(value, Mapping):
        return _json(dict(value))
    structured = json_form(value)
    return structured if isinstance(structured, str) else _text(structured)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=json_form)
    except (TypeError, ValueError, RecursionError):
        # Keys that JSON does not know, or a value that contains itself.
        return json.dumps(_safe(value, ()), indent=2, ensure_ascii=False, default=json_form)


def _safe(value: Any, above: tuple[int, ...]) -> Any:
    if id(value) in above or len(above) > 100:
        return "..."
    above = (*above, id(value))
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _safe(item, above) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe(item, above) for item in value]
    return value


def json_form(value: Any) -> Any:
    """Returns the nearest JSON value of an object that JSON does not know; its text if there is nothing better."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID | PurePath | datetime.timedelta | complex):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _says_failed(content: str) -> bool:
    """A tool that catches its own exceptions tells of the failure in what it returns (spec D3.10)."""
    if content[:20].lower().lstrip().startswith(_FAILED):
        return True
    if not content.startswith("{") or len(content) > 1_000_000:
        return False
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(told, dict):
        return False
    if told.get("error") or told.get("status") in ("error", "failed"):
        return True
    return (told.get("success") is False or told.get("ok") is False) and bool(told.get("message"))
