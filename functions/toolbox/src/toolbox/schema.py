"""JSON Schema of one parameter, in the form that models understand: no references, no titles, no null branches."""

from typing import Any

Schema = dict[str, Any]

# Keywords whose value maps names that authors chose to schemas: there, a key "title" is somebody's field.
_NAMED = ("properties", "patternProperties")


def tidy(schema: Schema) -> Schema:
    """Returns a self-contained copy of a Pydantic schema: definitions inlined, titles and null alternatives removed."""
    definitions = schema.get("$defs", {})
    tidied = _tidy({key: value for key, value in schema.items() if key != "$defs"}, definitions, ())
    return tidied or {"type": "string"}


def _tidy(node: Any, definitions: Schema, open_refs: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_tidy(item, definitions, open_refs) for item in node]
    if not isinstance(node, dict):
        return node
    if reference := node.get("$ref"):
        name = reference.rsplit("/", 1)[-1]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        if name in open_refs:
            # A model that contains itself has no finite inline form: its inner occurrence stays an open object.
            return _tidy({"type": "object", **beside}, definitions, open_refs)
        return _tidy({**definitions.get(name, {}), **beside}, definitions, (*open_refs, name))
    result: Schema = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "discriminator":
            # It maps values to the references that were just inlined; the constants in the branches say the same.
            continue
        if key in _NAMED and isinstance(value, dict):
            result[key] = {
                name: _tidy(inner, definitions, open_refs) or {"type": "string"} for name, inner in value.items()
            }
        elif key in ("default", "examples", "enum", "const"):
            result[key] = value
        else:
            result[key] = _tidy(value, definitions, open_refs)
    if result.get("items") == {}:
        result["items"] = {"type": "string"}
    if "enum" in result and "type" not in result:
        result["type"] = "string"
    return _without_null(result)


def _without_null(node: Schema) -> Schema:
    """`X | null` reads as plain `X`: a model leaves the argument out rather than sending null."""
    for keyword in ("anyOf", "oneOf"):
        branches = node.get(keyword)
        if not isinstance(branches, list):
            continue
        kept = [branch for branch in branches if branch.get("type") != "null"]
        if len(kept) == len(branches):
            continue
        rest = {key: value for key, value in node.items() if key != keyword}
        if rest.get("default", ...) is None:
            del rest["default"]
        node = {**kept[0], **rest} if len(kept) == 1 else {**rest, keyword: kept}
    return node


def repair(value: Any, schema: Schema) -> Any:
    """Returns the value with the slips of models put right: numbers and flags sent as text, text sent as a number.

    Only where the schema leaves no doubt; a value that no rule fits comes back unchanged, for validation to judge.
    """
    match schema.get("type"):
        case "integer":
            return _integer(value)
        case "number" if isinstance(value, str):
            return _number(value)
        case "boolean" if isinstance(value, str):
            return {"true": True, "false": False}.get(value.strip().lower(), value)
        case "string" if isinstance(value, int | float) and not isinstance(value, bool) and "enum" not in schema:
            return str(value)
        case "array" if isinstance(value, list):
            prefix = schema.get("prefixItems", [])
            rest = schema.get("items") if isinstance(schema.get("items"), dict) else {}
            return [repair(item, prefix[index] if index < len(prefix) else rest) for index, item in enumerate(value)]
        case "object" if isinstance(value, dict):
            known = schema.get("properties", {})
            other = schema.get("additionalProperties")
            other = other if isinstance(other, dict) else {}
            return {key: repair(item, known.get(key, other)) for key, item in value.items()}
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
