"""Property: whatever a spec accepts runs, and runs with well-typed arguments; what it does not accept does not run."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbox import arguments, functions

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INTEGERS = st.integers(-(2**70), 2**70)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)

# hint, values that its schema allows, the check of what the function gets
Case = tuple[str, st.SearchStrategy[Any], str]
LEAVES: list[Case] = [
    ("int", INTEGERS, "type({}) is int"),
    ("str", TEXT, "type({}) is str"),
    ("float", FLOATS | st.integers(-1000, 1000), "type({}) is float"),
    ("bool", st.booleans(), "type({}) is bool"),
    ("Literal['a', 'b']", st.sampled_from(["a", "b"]), "{} in ('a', 'b')"),
    ("Colour", st.sampled_from(["r", "g"]), "isinstance({}, Colour)"),
    ("Item", st.fixed_dictionaries({"name": TEXT}, optional={"n": INTEGERS}), "isinstance({}, Item)"),
    ("datetime.date", st.dates().map(str), "type({}) is datetime.date"),
    ("Record", st.fixed_dictionaries({"a": INTEGERS}), "type({}) is dict and type({}['a']) is int"),
]
HEAD = """
import datetime, enum
from typing import *
from typing_extensions import TypedDict
from pydantic import BaseModel

class Colour(enum.Enum):
    red, green = "r", "g"

class Item(BaseModel):
    name: str
    n: int = 1

class Record(TypedDict):
    a: int
"""


def _many(case: Case) -> Case:
    hint, values, check = case
    inner = check.replace("{}", "v")
    return f"list[{hint}]", st.lists(values, max_size=3), f"type({{}}) is list and all({inner} for v in {{}})"


def _named(case: Case) -> Case:
    hint, values, check = case
    inner = check.replace("{}", "v")
    shown = f"type({{}}) is dict and all({inner} for v in {{}}.values())"
    return f"dict[str, {hint}]", st.dictionaries(TEXT, values, max_size=3), shown


def _pair(case: Case) -> Case:
    hint, values, check = case
    shown = f"type({{}}) is tuple and {check.replace('{}', '({}[0])')}"
    return f"tuple[{hint}, int]", st.tuples(values, INTEGERS).map(list), shown


def _optional(case: Case) -> Case:
    hint, values, check = case
    return f"Optional[{hint}]", values, check


CASES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(*(inner.map(made) for made in (_many, _named, _pair, _optional))),
    max_leaves=3,
)


@st.composite
def signatures(draw: st.DrawFn) -> tuple[str, dict[str, Any], str]:
    cases = draw(st.lists(CASES, min_size=1, max_size=4))
    parts, values, checks = [], {}, []
    for index, (hint, strategy, check) in enumerate(cases):
        name = f"p{index}"
        optional = index > 0 and draw(st.booleans())
        if optional or any("=" in part for part in parts):
            parts.append(f"{name}: {hint} = None")
            checks.append(f"({name} is None or {check.replace('{}', name)})")
            if draw(st.booleans()):
                continue
        else:
            parts.append(f"{name}: {hint}")
            checks.append(check.replace("{}", name))
        values[name] = draw(strategy)
    return ", ".join(parts), values, " and ".join(f"({check})" for check in checks)


def build(signature: str, body: str) -> tuple[Any, functions.Function]:
    names: dict[str, Any] = {}
    exec(f"{HEAD}\nclass Tools:\n    def run(self, {signature}):\n        return {body}\n", names)
    instance = names["Tools"]()
    return instance, functions.find(instance, [])["run"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(signatures())
def test_what_the_spec_accepts_runs_well_typed(made: tuple[str, dict[str, Any], str]) -> None:
    signature, values, check = made
    instance, function = build(signature, check)
    spec = function.spec()
    assert "$ref" not in json.dumps(spec) and "$defs" not in json.dumps(spec)
    assert set(spec["parameters"].get("required", [])) <= set(values)
    typed = arguments.typed(function, arguments.decode(json.dumps(values)))
    assert instance.run(**typed) is True


JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
# What is accepted beyond the schema, by hint: numbers and flags as text, whole numbers with a point, numbers as text.
ACCEPTED = {
    "int": (int, lambda value: isinstance(value, str | float)),
    "str": (str, lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    "float": (int | float, lambda value: isinstance(value, str)),
    "bool": (bool, lambda value: isinstance(value, str)),
    "list": (list, lambda value: False),
    "dict": (dict, lambda value: False),
}


@pytest.mark.parametrize("hint", ACCEPTED)
@settings(max_examples=200, deadline=None)
@given(value=JSON)
def test_nothing_else_is_accepted(hint: str, value: Any) -> None:
    kind, tolerated = ACCEPTED[hint]
    _, function = build(f"x: {hint}", "x")
    fits = isinstance(value, kind) and (hint == "bool" or not isinstance(value, bool))
    try:
        arguments.typed(function, {"x": value})
    except arguments.Invalid as problem:
        assert not fits and "`x`" in str(problem)
    else:
        assert fits or tolerated(value)
