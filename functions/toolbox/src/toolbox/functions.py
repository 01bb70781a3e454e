"""A toolkit's functions: found on the instance, described by their signature, hints and docstring."""

import functools
import inspect
import typing
from dataclasses import dataclass, field
from typing import Any

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from . import docstring, schema

EMPTY = inspect.Parameter.empty


class SpecFailed(Exception):
    """A hint cannot be expressed as a JSON Schema; the message names function, parameter and reason."""


@dataclass(frozen=True)
class Parameter:
    """One parameter that the model may fill."""

    name: str
    kind: Any
    schema: schema.Schema
    required: bool
    default: FieldInfo | None
    adapter: pydantic.TypeAdapter[Any] | None

    def default_value(self) -> Any:
        """What `= Field(...)` stands for; a plain default is left to Python itself and is never asked for here."""
        assert self.default is not None
        return self.default.get_default(call_default_factory=True)


@dataclass(frozen=True)
class Function:
    """One function that the model may call."""

    name: str
    doc: str | None
    parameters: dict[str, Parameter]
    reserved: dict[str, inspect.Parameter] = field(default_factory=dict)
    open_ended: bool = False

    def spec(self, *, offered: bool = False) -> dict[str, Any]:
        """Returns the spec as the HTTP API shows it or, with `offered`, as the model gets it."""
        properties = {name: parameter.schema for name, parameter in self.parameters.items()}
        shape: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [name for name, parameter in self.parameters.items() if parameter.required]:
            shape["required"] = required
        if self.open_ended:
            shape["additionalProperties"] = True
        text = docstring.offered(self.doc, self.name) if offered else docstring.description(self.doc)
        return {"name": self.name, "description": text, "parameters": shape}


def find(instance: Any, warnings: list[str]) -> dict[str, Function]:
    """Returns the functions of a toolkit by name, in alphabetical order."""
    found: dict[str, Function] = {}
    for name in sorted(n for n in dir(instance) if not n.startswith("_")):
        static = inspect.getattr_static(instance, name)
        if isinstance(static, property | functools.cached_property) or inspect.isclass(static):
            continue
        member = getattr(instance, name, None)
        if not callable(member) or inspect.isclass(member):
            continue
        own = any(name in vars(cls) for cls in type(instance).__mro__)
        if not own and not inspect.isroutine(member):
            continue
        try:
            found[name] = describe(name, member, type(instance))
        except SpecFailed as problem:
            if own:
                raise
            # A callable that `__init__` happened to keep (a logger's method, a client's) was never meant as a tool.
            warnings.append(f"{problem} It is not offered.")
    return found


def describe(name: str, member: Any, owner: type) -> Function:
    """Builds the description of one function from what its author wrote."""
    written = _written(name, member)
    try:
        signature = inspect.signature(member) if written is None else _unbound(inspect.signature(written))
    except (TypeError, ValueError) as problem:
        raise SpecFailed(f"{name}: {problem}.") from None
    source = inspect.unwrap(written if written is not None else getattr(member, "__func__", member))
    doc = getattr(source, "__doc__", None) or getattr(member, "__doc__", None)
    texts = docstring.parameters(doc)
    parameters: dict[str, Parameter] = {}
    reserved: dict[str, inspect.Parameter] = {}
    open_ended = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.name.startswith("_"):
            reserved[parameter.name] = parameter
        else:
            parameters[parameter.name] = _parameter(name, parameter, source, owner, texts.get(parameter.name))
    return Function(name, doc, parameters, reserved, open_ended)


def _written(name: str, member: Any) -> Any:
    """The function as written, when a decorator without `functools.wraps` hides it behind `(*args, **kwargs)`."""
    function = getattr(member, "__func__", member)
    if getattr(function, "__name__", name) == name or hasattr(function, "__wrapped__"):
        return None
    queue = [function]
    for candidate in queue:
        for cell in getattr(candidate, "__closure__", None) or ():
            try:
                inner = cell.cell_contents
            except ValueError:
                continue
            if inspect.isfunction(inner):
                if inner.__name__ == name:
                    return inner
                queue.append(inner)
    return None


def _unbound(signature: inspect.Signature) -> inspect.Signature:
    """Drops `self`, which a wrapper that hides its function passes on by itself."""
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:])


def _parameter(function: str, parameter: inspect.Parameter, source: Any, owner: type, text: str | None) -> Parameter:
    hint = parameter.annotation
    if hint is not EMPTY:
        hint = _resolve(function, parameter, source, owner)
    info = parameter.default if isinstance(parameter.default, FieldInfo) else None
    required = info.is_required() if info else parameter.default is EMPTY
    if hint is EMPTY or hint in (Any, object):
        adapter, shape = None, {"type": "string"}
        if info is not None:
            shape = _shape(function, parameter.name, pydantic.TypeAdapter(typing.Annotated[str, info]))
    else:
        try:
            adapter = pydantic.TypeAdapter(typing.Annotated[hint, info] if info is not None else hint)
        except (pydantic.errors.PydanticUserError, TypeError) as problem:
            raise SpecFailed(_reason(function, parameter.name, problem)) from None
        shape = _shape(function, parameter.name, adapter)
    text = text or shape.get("description") or _annotated_text(hint)
    if text:
        shape["description"] = text
    if not required:
        _add_default(shape, info.get_default(call_default_factory=True) if info else parameter.default, adapter)
    return Parameter(parameter.name, parameter.kind, shape, required, info, adapter)


def _resolve(function: str, parameter: inspect.Parameter, source: Any, owner: type) -> Any:
    """Evaluates one hint on its own, so that an odd hint on an injected parameter cannot spoil the others."""

    def holder() -> None: ...

    holder.__annotations__ = {"hint": parameter.annotation}
    names = getattr(source, "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=names, localns=dict(vars(owner)), include_extras=True)["hint"]
    except Exception as problem:
        raise SpecFailed(_reason(function, parameter.name, problem)) from None


def _shape(function: str, name: str, adapter: pydantic.TypeAdapter[Any]) -> schema.Schema:
    try:
        return schema.tidy(adapter.json_schema(mode="validation"))
    except (pydantic.errors.PydanticUserError, TypeError) as problem:
        raise SpecFailed(_reason(function, name, problem)) from None


def _reason(function: str, name: str, problem: Exception) -> str:
    return f"{function}: the hint of `{name}` cannot be described to a model: {str(problem).splitlines()[0]}"


def _annotated_text(hint: Any) -> str | None:
    """`Annotated[str, "what it is"]`: a bare text among the metadata is meant as a description."""
    return next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, str)), None)


def _add_default(shape: schema.Schema, default: Any, adapter: pydantic.TypeAdapter[Any] | None) -> None:
    if default is None or default is PydanticUndefined:
        shape.pop("default", None)
        return
    writer = adapter or pydantic.TypeAdapter(Any)
    try:
        shape["default"] = writer.dump_python(default, mode="json", warnings=False)
    except Exception:
        # A default without a JSON form still works in Python; the model just is not told about it.
        shape.pop("default", None)
