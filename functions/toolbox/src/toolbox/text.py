"""Text that survives the way out: whatever a tool or a model produced becomes valid UTF-8."""

from typing import Any


def clean_str(value: str) -> str:
    """Joins surrogate pairs into their characters and replaces lone surrogates, which no encoder accepts."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def clean(value: Any) -> Any:
    """Cleans all texts in a JSON value, keys included."""
    if isinstance(value, str):
        return clean_str(value)
    if isinstance(value, dict):
        return {clean_str(key) if isinstance(key, str) else key: clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def cut(value: str, limit: int) -> str:
    """Shortens a text to at most `limit` bytes of UTF-8 with a notice that tells how much is left out."""
    size = len(value.encode())
    if size <= limit:
        return value
    notice = f"\n\n[Truncated: the result has {size} bytes, of which the first {limit} at most are shown.]"
    room = max(limit - len(notice.encode()), 0)
    return value.encode()[:room].decode("utf-8", "ignore") + notice
