"""Valves and user valves: their schema, the validation of new values, and the instances that a call sees."""

from typing import Any

import pydantic

from .load import Toolkit

CLASSES = {"valves": "Valves", "user_valves": "UserValves"}


class NotValid(Exception):
    """The values do not fit the class; the message is for people."""


class NoValves(Exception):
    """The toolkit has no class of that kind."""


def spec(toolkit: Toolkit, kind: str) -> dict[str, Any] | None:
    """Returns the JSON schema of the class, with select options filled in from the class methods they name."""
    settings = toolkit.settings(CLASSES[kind])
    if settings is None or not issubclass(settings, pydantic.BaseModel):
        return None
    schema = settings.model_json_schema()
    for shape in schema.get("properties", {}).values():
        if isinstance(source := shape.get("input"), dict) and isinstance(method := source.get("options"), str):
            source["options"] = _options(settings, method)
    return schema


def _options(settings: type, method: str) -> list[Any]:
    """Options that cannot be had (a service that is down) leave the select empty: the other settings stay editable."""
    try:
        found = getattr(settings, method)()
    except Exception:
        return []
    return list(found) if isinstance(found, list | tuple | set) else []


def accept(toolkit: Toolkit, kind: str, values: dict[str, Any]) -> dict[str, Any]:
    """Validates new values and returns what is to be stored: only what was given, coerced, without nulls."""
    settings = toolkit.settings(CLASSES[kind])
    if settings is None:
        raise NoValves(f"{toolkit.id} has no {CLASSES[kind]}.")
    given = {key: value for key, value in values.items() if value is not None}
    return _make(settings, given).model_dump(mode="json", exclude_unset=True)


def instance(settings: type, stored: dict[str, Any]) -> Any:
    """Returns an instance with the stored values, for one call."""
    return _make(settings, {key: value for key, value in stored.items() if value is not None})


def _make(settings: type, values: dict[str, Any]) -> Any:
    try:
        return settings(**values)
    except pydantic.ValidationError as problem:
        lines = (f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in problem.errors())
        raise NotValid("; ".join(lines)) from None
    except TypeError as problem:
        raise NotValid(str(problem)) from None
