"""The model's arguments: filtered by the spec, slips put right, validated, turned into typed values."""

import json
from typing import Any

import pydantic

from . import schema, text
from .functions import Function, Parameter


class Invalid(Exception):
    """The arguments do not fit; the message tells the model what to correct."""


def decode(raw: str) -> dict[str, Any]:
    """Decodes the arguments' JSON text; whole numbers keep all their digits."""
    try:
        value = json.loads(raw or "{}")
    except ValueError as problem:
        raise Invalid(f"The arguments are not valid JSON: {problem}.") from None
    if not isinstance(value, dict):
        raise Invalid("The arguments must be a JSON object.")
    return text.clean(value)


def typed(function: Function, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments to call the function with; raises Invalid with all problems at once."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, parameter in function.parameters.items():
        if name in given:
            try:
                values[name] = _value(parameter, given[name])
            except pydantic.ValidationError as problem:
                problems += _explain(parameter, problem)
            except ValueError as problem:
                problems.append(f"`{name}`: {problem}")
        elif parameter.required:
            problems.append(f"missing required argument `{name}`{_expected(parameter)}")
        elif parameter.default is not None:
            values[name] = parameter.default_value()
    if problems:
        raise Invalid(f"Invalid arguments for `{function.name}`: " + "; ".join(problems) + ".")
    if function.open_ended:
        others = {key: value for key, value in given.items() if key not in values and not key.startswith("_")}
        values.update(others)
    return values


def _value(parameter: Parameter, value: Any) -> Any:
    if parameter.adapter is None:
        return value
    # Strict on the JSON form accepts what the schema says and nothing else: ISO dates, enum values, lists for tuples.
    try:
        return parameter.adapter.validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError:
        repaired = schema.repair(value, parameter.schema)
        return parameter.adapter.validate_json(json.dumps(repaired), strict=True)


def _explain(parameter: Parameter, problem: pydantic.ValidationError) -> list[str]:
    found = []
    for error in problem.errors(include_url=False, include_context=False)[:5]:
        place = ".".join(str(part) for part in error["loc"])
        where = f"`{parameter.name}`" + (f" at {place}" if place else "")
        shown = repr(error["input"])
        found.append(f"{where}: {error['msg']}, got {shown[:80]}{'…' if len(shown) > 80 else ''}")
    return found


def _expected(parameter: Parameter) -> str:
    kind = parameter.schema.get("type")
    return f" ({kind})" if isinstance(kind, str) else ""
