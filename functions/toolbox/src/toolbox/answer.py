"""A call's result on its way out: cut to what was asked for, or put where the caller wants large ones."""

import http.client
import json
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from . import text

# A Lambda answer may have 6 MB, events and logs included.
INLINE = 4_000_000
_TRIES = 3


def checked(result: Any) -> dict[str, Any] | None:
    """Returns a result that came from a child in its proper form, or None if it has none."""
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        return None
    lists = {
        key: [item for item in result.get(key) or [] if isinstance(item, kind)]
        if isinstance(result.get(key), list)
        else []
        for key, kind in (("embeds", str), ("files", dict), ("images", str))
    }
    status = "failed" if result.get("status") == "failed" else "completed"
    return {"content": text.clean_str(result["content"]), "status": status, **text.clean(lists), "spilled": False}


def deliver(result: dict[str, Any], result_bytes: int | None, put_url: str | None) -> dict[str, Any]:
    """Returns the result as it goes into the answer."""
    if result_bytes:
        result = {**result, "content": text.cut(result["content"], result_bytes)}
    size = len(json.dumps(result))
    if size <= INLINE:
        return result
    if put_url and _put(put_url, json.dumps(result, ensure_ascii=False).encode()):
        return {"content": "", "status": result["status"], "embeds": [], "files": [], "images": [], "spilled": True}
    return _fitted(result)


def _fitted(result: dict[str, Any]) -> dict[str, Any]:
    """Cuts a result until it fits: attachments that are too large go first, since half of one is nothing."""
    result = dict(result)
    for key in ("images", "files", "embeds"):
        kept, room = [], INLINE // 2
        for item in result[key]:
            room -= len(json.dumps(item))
            if room >= 0:
                kept.append(item)
        if lost := len(result[key]) - len(kept):
            result["content"] += f"\n\n[{lost} of the {key} omitted: too large.]"
        result[key] = kept
    room = INLINE // 2
    rest = len(json.dumps({**result, "content": ""}))
    while rest + len(json.dumps(result["content"])) > INLINE * 1.2 and room > 1000:
        result["content"] = text.cut(result["content"], room)
        room //= 2
    return result


def _put(url: str, body: bytes) -> bool:
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    for attempt in range(_TRIES):
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=60, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            connection.request("PUT", target, body)
            response = connection.getresponse()
            response.read()
            if response.status < 300:
                return True
            if response.status < 500:
                return False
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.2 * (attempt + 1))
    return False
