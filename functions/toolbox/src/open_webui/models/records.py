"""The base of records. The real package made its lookups asynchronous on the way, so tools come in both spellings."""

from collections.abc import Generator
from typing import Any

import pydantic


class Record(pydantic.BaseModel):
    """A record that may be used as it is or awaited first."""

    model_config = pydantic.ConfigDict(extra="allow")

    def __await__(self) -> Generator[Any, Any, "Record"]:
        return self
        yield


class Nothing:
    """What an unsuccessful lookup returns: false, equal to None, and awaitable (then it is None)."""

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return other is None

    def __hash__(self) -> int:
        return hash(None)

    def __await__(self) -> Generator[Any, Any, None]:
        return None
        yield
