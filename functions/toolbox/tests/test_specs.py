"""Specs: the contract's cases word for word, and what we do better where the real server says nonsense."""

import json
import os
import pathlib
import sys
from typing import Any

import pytest
from conftest import ROOT, Caller

SHARED = ROOT.parents[1] / (os.environ.get("SHARED_DIR") or "../shared")
CASES = sorted((SHARED / "contract/cases/specs").glob("*.py"))


@pytest.mark.skipif(not CASES, reason="the contract's cases are not here: set SHARED_DIR")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_contract(caller: Caller, case: pathlib.Path) -> None:
    expected = json.loads(case.with_suffix(".json").read_text())
    told = caller.describe(case.read_text())
    assert told["ok"]
    assert {spec["name"]: spec for spec in told["specs"]} == {spec["name"]: spec for spec in expected["specs"]}
    assert [spec["name"] for spec in told["specs"]] == sorted(spec["name"] for spec in expected["specs"])
    assert told["manifest"] == expected["manifest"]
    assert told["has_user_valves"] == expected["has_user_valves"]


def method(signature: str, head: str = "", doc: str = "F.") -> str:
    return f'{head}\nclass Tools:\n    def f(self, {signature}) -> str:\n        """{doc}"""\n        return ""\n'


def parameters(caller: Caller, source: str) -> dict[str, Any]:
    told = caller.describe(source)
    assert told["ok"], told
    return told["specs"][0]["parameters"]


# name: (signature, head, the schema of parameter x)
HINTS = {
    "typed_dict": (
        "x: P",
        "from typing import TypedDict\nclass P(TypedDict):\n    a: int",
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    ),
    "dataclass": (
        "x: P",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    a: int = 1",
        {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
    ),
    "set": ("x: set[str]", "", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    "open_tuple": ("x: tuple[int, ...]", "", {"type": "array", "items": {"type": "integer"}}),
    "date": ("x: datetime.date", "import datetime", {"type": "string", "format": "date"}),
    "any": ("x: Any", "from typing import Any", {"type": "string"}),
    "list_of_any": ("x: list[Any]", "from typing import Any", {"type": "array", "items": {"type": "string"}}),
    "annotated_field": (
        "x: Annotated[int, Field(ge=1, description='count')]",
        "from typing import Annotated\nfrom pydantic import Field",
        {"type": "integer", "minimum": 1, "description": "count"},
    ),
    "annotated_text": (
        "x: Annotated[str, 'what it is']",
        "from typing import Annotated",
        {"type": "string", "description": "what it is"},
    ),
    "field_default": (
        "x: int = Field(3, ge=1, description='count')",
        "from pydantic import Field",
        {"type": "integer", "minimum": 1, "description": "count", "default": 3},
    ),
    "optional_enum": (
        "x: Optional[E] = None",
        "from typing import Optional\nfrom enum import Enum\nclass E(str, Enum):\n    a = 'a'\n    b = 'b'",
        {"type": "string", "enum": ["a", "b"]},
    ),
    "recursive_model": (
        "x: 'N'",
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class N(BaseModel):\n    title: str\n    next: N | None = None",
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "next": {"type": "object"}},
            "required": ["title"],
        },
    ),
    "model_in_union": (
        "x: int | P",
        "from pydantic import BaseModel\nclass P(BaseModel):\n    a: int",
        {
            "anyOf": [
                {"type": "integer"},
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            ]
        },
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_hints(caller: Caller, name: str) -> None:
    signature, head, expected = HINTS[name]
    assert parameters(caller, method(signature, head))["properties"]["x"] == expected


def test_open_ended_signatures(caller: Caller) -> None:
    assert parameters(caller, method("a: int, *args, **kwargs")) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": True,
    }


@pytest.mark.parametrize("name", ["schema", "copy", "model_config", "json", "validate", "title", "class_"])
def test_names_that_models_use_themselves(caller: Caller, name: str) -> None:
    source = method(f"{name}: str").replace('return ""', f"return {name}")
    assert list(parameters(caller, source)["properties"]) == [name]
    assert caller.content(source, "f", {name: "x"}) == "x"


@pytest.mark.parametrize("hint", ["Callable", "Plain", "Undefined", "list[Plain]"])
def test_hints_that_no_schema_expresses(caller: Caller, hint: str) -> None:
    told = caller.describe(method(f"x: '{hint}'", "from typing import Callable\nclass Plain: pass"))
    assert told["error"]["kind"] == "spec"
    assert "`x`" in told["error"]["message"] and told["error"]["message"].startswith("f:")


def test_odd_hints_on_injected_parameters_do_no_harm(caller: Caller) -> None:
    source = method("x: int, __event_emitter__: 'Callable[[Undefined], None]' = None, __user__: Undefined2 = None")
    source = "from __future__ import annotations\n" + source
    assert list(parameters(caller, source)["properties"]) == ["x"]


def test_the_offered_description_is_the_raw_docstring(caller: Caller) -> None:
    told = caller.describe(method("q: str", doc="\n        First.\n          Indented. :param q: x\n        "))
    # From 3.13 on, the compiler itself takes the common indentation off a docstring.
    margin = "" if sys.version_info >= (3, 13) else "        "
    assert told["offered"][0]["description"] == f"\n{margin}First.\n{margin}  Indented. "
    assert told["specs"][0]["description"] == "First.\nIndented. :param q: x"
    assert caller.describe("class Tools:\n    def bare(self): pass")["offered"][0]["description"] == "bare"


WRAPPED = '''
import functools

def plain(f):
    def wrapper(*args, **kwargs):
        return "<" + f(*args, **kwargs) + ">"
    return wrapper

def tidy(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return "<" + f(*args, **kwargs) + ">"
    return wrapper

class Tools:
    @DECORATOR
    def room(self, name: str, __user__: dict = None) -> str:
        """Room.
        :param name: which
        """
        return name + __user__["id"]
'''


@pytest.mark.parametrize("decorator", ["plain", "tidy", "plain\n    @tidy", "plain\n    @plain"])
def test_decorators(caller: Caller, decorator: str) -> None:
    source = WRAPPED.replace("DECORATOR", decorator)
    told = caller.describe(source)["specs"]
    assert told[0]["name"] == "room" and told[0]["description"] == "Room."
    assert told[0]["parameters"]["properties"] == {"name": {"type": "string", "description": "which"}}
    assert caller.content(source, "room", {"name": "x"}, user="u").strip("<>") == "xu"


def test_callables_kept_on_the_instance(caller: Caller) -> None:
    source = """
import logging

class Api:
    def __call__(self, x): return x

class Tools:
    def __init__(self):
        self.log = logging.getLogger("x").info
        self.api = Api()
        self.extra = lambda text: text
        self.odd = self._odd

    def _odd(self, f: "Undefined"): pass
"""
    told = caller.describe(source)
    assert [spec["name"] for spec in told["specs"]] == ["extra", "log"]
    assert any("odd" in warning for warning in told["warnings"])


FRONTMATTER = (
    '"""\ntitle: A: b\nrequirements: a>=1,<2, b ,c\nbad key: x\ntitle: Last\nicon_url: data:x\n"""\nclass Tools: pass'
)


def test_frontmatter(caller: Caller) -> None:
    told = caller.describe(FRONTMATTER)
    assert told["manifest"] == {"title": "Last", "requirements": "a>=1,<2, b ,c", "icon_url": "data:x"}
    assert told["missing"] == ["a>=1,<2", "b", "c"]
    assert caller.describe("# x\n" + FRONTMATTER)["manifest"] == {}


FAULTS = {
    "f(": ("syntax", "'(' was never closed (<string>, line 1)"),
    "": ("load", "No Tools class found in the module"),
    "import nosuchmodule_x\nclass Tools: pass": ("load", "No module named 'nosuchmodule_x'"),
    "class Tools:\n    def __init__(self): raise RuntimeError('no license file')": ("load", "no license file"),
    "raise ValueError": ("load", "ValueError"),
    "import sys; sys.exit(3)": ("load", "The file ended the interpreter (exit code 3)."),
    "x = '\0'": ("syntax", "source code string cannot contain null bytes"),
}


@pytest.mark.parametrize("source", FAULTS, ids=repr)
def test_files_that_do_not_load(caller: Caller, source: str) -> None:
    kind, message = FAULTS[source]
    error = caller.describe(source)["error"]
    assert error["kind"] == kind and error["message"].startswith(message)


@pytest.mark.parametrize("event", [{}, {"op": "nope"}, {"op": "describe"}, {"op": "call", "tool": {"id": 1}}, [], None])
def test_malformed_events(caller: Caller, event: Any) -> None:
    assert caller.invoke(event)["error"]["kind"] == "request"
