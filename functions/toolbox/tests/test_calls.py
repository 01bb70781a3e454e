"""Calls: arguments, injected values, valves, events and the state that lives between calls."""

import json
from typing import Any

import pytest
from conftest import Caller

HEAD = """
import asyncio, datetime, enum, json, threading, uuid
from dataclasses import dataclass
from typing import *
from pydantic import BaseModel, Field

class Colour(enum.Enum):
    red = "r"

class Item(BaseModel):
    name: str
    n: int = 1

@dataclass
class Point:
    x: int
"""


def tool(signature: str, body: str) -> str:
    return f'{HEAD}\nclass Tools:\n    async def run(self, {signature}):\n        """Run."""\n        {body}\n'


# signature, arguments, what the body says about x
TYPED = [
    ("x: int", "5", "int 5"),
    ("x: int", 5.0, "int 5"),
    ("x: Optional[int] = None", " 7 ", "int 7"),
    ("x: float", "1.5", "float 1.5"),
    ("x: float", 1, "float 1.0"),
    ("x: bool", "true", "bool True"),
    ("x: str", 12, "str 12"),
    ("x: str", 1.5, "str 1.5"),
    ("x: Optional[str] = None", 3, "str 3"),
    ("x: Optional[str]", None, "NoneType None"),
    ("x: list[int]", ["1", 2], "list [1, 2]"),
    ("x: Colour", "r", "Colour Colour.red"),
    ("x: Item", {"name": "a", "n": "3"}, "Item name='a' n=3"),
    ("x: Point", {"x": 1}, "Point Point(x=1)"),
    ("x: datetime.date", "2024-05-01", "date 2024-05-01"),
    ("x: uuid.UUID", "00000000-0000-0000-0000-000000000001", "UUID 00000000-0000-0000-0000-000000000001"),
    ("x: tuple[str, int]", ["a", 1], "tuple ('a', 1)"),
    ("x: set[str]", ["a"], "set {'a'}"),
    ("x: bytes", "hi", "bytes b'hi'"),
    ("x", {"any": [1]}, "dict {'any': [1]}"),
    ("x: Any", [1], "list [1]"),
    ("x: int | str", "5", "str 5"),
    ("x: int = Field(3)", ..., "int 3"),
    ("x: int, /", 4, "int 4"),
]


@pytest.mark.parametrize(("signature", "value", "expected"), TYPED, ids=str)
def test_typed_arguments(caller: Caller, signature: str, value: Any, expected: str) -> None:
    given = {} if value is ... else {"x": value}
    assert caller.content(tool(signature, 'return f"{type(x).__name__} {x}"'), arguments=given) == expected


REFUSED = [
    ("x: int", {"x": "five"}, ["`x`", "integer", "'five'"]),
    ("x: int", {"x": True}, ["`x`"]),
    ("x: int", {"x": 1.5}, ["`x`"]),
    ("x: str", {"x": ["a"]}, ["`x`", "string"]),
    ("x: Colour", {"x": "blue"}, ["`x`", "'r'"]),
    ("x: Item", {"x": {"n": 1}}, ["`x` at name", "required"]),
    ("x: list[int]", {"x": 1}, ["`x`", "array"]),
    ("x: Annotated[int, Field(ge=1)]", {"x": 0}, ["`x`", "greater than or equal to 1"]),
    ("x: int, y: str", {}, ["missing required argument `x`", "missing required argument `y`"]),
]


@pytest.mark.parametrize(("signature", "given", "told"), REFUSED, ids=str)
def test_refused_arguments(caller: Caller, signature: str, given: dict, told: list[str]) -> None:
    result = caller.result(tool(signature, 'return "ran"'), arguments=given)
    assert result["status"] == "failed"
    message = json.loads(result["content"])["error"]
    assert all(part in message for part in told), message


def test_big_integers_keep_their_digits(caller: Caller) -> None:
    source = tool("x: int", 'return {"x": x, "next": x + 1}')
    assert "123456789012345678902" in caller.content(source, arguments='{"x": 123456789012345678901}')


def test_models_can_be_read_like_dictionaries(caller: Caller) -> None:
    source = tool("x: Item", 'return x["name"] + x.name + Item(**x).name + x.get("none", "d") + str(dict(x)["n"])')
    assert caller.content(source, arguments={"x": {"name": "a"}}) == "aaad1"


def test_unknown_and_reserved_arguments_are_dropped(caller: Caller) -> None:
    source = tool(
        "x: int = 1, __user__: dict = None, __odd__='d', _p='p'", "return f\"{x} {__user__['id']} {__odd__} {_p}\""
    )
    given = {"x": 2, "zzz": 1, "__user__": {"id": "evil"}, "__odd__": "evil", "_p": "evil"}
    assert caller.content(source, arguments=given, user="u9") == "2 u9 d p"


def test_open_ended_functions_get_further_arguments(caller: Caller) -> None:
    source = tool("x: int, __id__='', **more", "return more")
    given = {"x": 1, "y": 2, "__id__": "evil", "_z": 3}
    assert json.loads(caller.content(source, arguments=given)) == {"y": 2}


CONTEXT = {
    "metadata": {"chat_id": "c", "params": {"function_calling": "native"}},
    "messages": [{"role": "user", "content": "hi"}],
    "files": [{"id": "f"}],
    "model": {"id": "m"},
    "oauth_token": {"access_token": "t"},
    "chat_id": "c",
    "message_id": "m1",
    "session_id": "s1",
    "base_url": "https://host/base",
    "headers": {"X-Test": "1"},
}


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "__metadata__": {**CONTEXT["metadata"], "idempotency_key": "r/1/0"},
        "__messages__": CONTEXT["messages"],
        "__files__": CONTEXT["files"],
        "__model__": CONTEXT["model"],
        "__oauth_token__": CONTEXT["oauth_token"],
        "__chat_id__": "c",
        "__message_id__": "m1",
        "__session_id__": "s1",
        "__id__": "t",
    }.items(),
)
def test_injected(caller: Caller, name: str, expected: Any) -> None:
    source = tool(f"{name}", f"return json.dumps({name})")
    assert json.loads(caller.content(source, context=CONTEXT)) == expected


def test_the_request_stands_in(caller: Caller) -> None:
    body = """return [__request__.base_url, __request__.headers["x-test"], __request__.headers.get("X-TEST"),
            __request__.app.state.config.WEBUI_NAME, hasattr(__request__.app.state.config, "NOT_THERE")]"""
    answer = json.loads(caller.content(tool("__request__", body), context=CONTEXT))
    assert answer == {"results": ["https://host/base", "1", "1", "toolrounds", False]}


def test_nothing_mutable_is_shared_between_calls(caller: Caller) -> None:
    body = """__user__["seen"] = __user__.get("seen", 0) + 1; __metadata__.setdefault("l", []).append(1)
        __messages__.append(1); return [__user__["seen"], __metadata__["l"], len(__messages__)]"""
    source = tool("__user__, __metadata__, __messages__", body)
    answers = [json.loads(caller.content(source, context=CONTEXT)) for _ in range(2)]
    assert answers == [{"results": [1, [1], 2]}] * 2


VALVES = '''
from pydantic import BaseModel

class Tools:
    class Valves(BaseModel):
        key: str = "none"
        n: int = 5

    class UserValves(BaseModel):
        unit: str = "metric"

    def __init__(self):
        ATTRIBUTE

    def run(self, __user__: dict) -> str:
        """Run."""
        own = __user__["valves"]
        return f"{self.valves.key} {self.valves.n} {type(own).__name__} {own.unit}"
'''


def test_valves(caller: Caller) -> None:
    source = VALVES.replace("ATTRIBUTE", "self.valves = self.Valves()")
    assert caller.content(source) == "none 5 UserValves metric"
    more = {"valves": {"key": "K", "n": None}, "user_valves": {"unit": "imperial"}}
    assert caller.content(source, **more) == "K 5 UserValves imperial"
    assert caller.content(source) == "none 5 UserValves metric"


def test_valves_are_not_injected_without_an_attribute(caller: Caller) -> None:
    result = caller.result(VALVES.replace("ATTRIBUTE", "pass"))
    assert result["status"] == "failed" and "valves" in result["content"]


def test_stored_valves_that_no_longer_fit(caller: Caller) -> None:
    source = VALVES.replace("ATTRIBUTE", "self.valves = self.Valves()")
    result = caller.result(source, valves={"n": "many"})
    assert result["status"] == "failed" and "n: " in result["content"]


def test_new_valves(caller: Caller) -> None:
    source = VALVES.replace("ATTRIBUTE", "pass")

    def save(values: dict, kind: str = "valves", source: str = source) -> dict:
        event = {"op": "valves", "tool": {"id": "t", "source": source}, "kind": kind, "values": values}
        return caller.invoke(event)

    assert save({"key": None, "n": "7", "zzz": 1}) == {"ok": True, "values": {"n": 7}}
    assert save({"unit": "x"}, "user_valves") == {"ok": True, "values": {"unit": "x"}}
    refused = save({"n": "many"})["error"]
    assert refused["kind"] == "valves" and refused["message"].startswith("n: ")
    assert save({}, source="class Tools: pass")["error"]["kind"] == "no_valves"


def test_valves_spec_with_options_of_a_method(caller: Caller) -> None:
    source = """
from pydantic import BaseModel, Field

class Tools:
    class Valves(BaseModel):
        model: str = Field("", json_schema_extra={"input": {"type": "select", "options": "names"}})
        other: str = Field("", json_schema_extra={"input": {"type": "select", "options": "broken"}})

        @classmethod
        def names(cls):
            return ["a", "b"]
"""
    event = {"op": "valves_spec", "tool": {"id": "t", "source": source}, "kind": "valves"}
    schema = caller.invoke(event)["schema"]
    assert schema["properties"]["model"]["input"]["options"] == ["a", "b"]
    assert schema["properties"]["other"]["input"]["options"] == []
    assert caller.invoke({**event, "kind": "user_valves"}) == {"ok": True, "schema": None}


COUNTER = (
    'N = 0\nclass Tools:\n    def run(self) -> str:\n        global N\n        N += 1\n        return f"VERSION {N}"\n'
)


def test_state_lives_between_calls_until_the_source_changes(caller: Caller) -> None:
    assert [caller.content(COUNTER, tool="counter") for _ in range(2)] == ["VERSION 1", "VERSION 2"]
    assert caller.content(COUNTER.replace("VERSION", "NEW"), tool="counter") == "NEW 1"
    assert caller.content(COUNTER, tool="counter", user="somebody else") == "VERSION 1"


EMITTING = {
    "awaited": 'await __event_emitter__({"type": "x", "data": 1})',
    "not_awaited": '__event_emitter__({"type": "x", "data": 1})',
    "task": 'await asyncio.create_task(__event_emitter__({"type": "x", "data": 1}))',
    "gather": 'await asyncio.gather(__event_emitter__({"type": "x", "data": 1}))',
    "forgotten_task": 'asyncio.create_task(__event_emitter__({"type": "x", "data": 1}))',
    "thread": 'await asyncio.to_thread(__event_emitter__, {"type": "x", "data": 1})',
    "other_loop": 'await asyncio.to_thread(lambda: asyncio.run(__event_emitter__({"type": "x", "data": 1})))',
    "run_inside": 'asyncio.run(__event_emitter__({"type": "x", "data": 1}))',
    "threadsafe": (
        "loop = asyncio.get_running_loop(); await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe("
        '__event_emitter__({"type": "x", "data": 1}), loop).result(5))'
    ),
    "if_coroutine_function": (
        'assert asyncio.iscoroutinefunction(__event_emitter__); await __event_emitter__({"type": "x", "data": 1})'
    ),
}


@pytest.mark.parametrize("way", EMITTING)
def test_ways_to_emit(caller: Caller, way: str) -> None:
    answer = caller.answer(tool("__event_emitter__", f'{EMITTING[way]}; return "ok"'))
    assert answer["result"]["content"] == "ok"
    assert [event["event"] for event in answer["events"]] == [{"type": "x", "data": 1}]


def test_events_are_numbered_and_json(caller: Caller) -> None:
    body = """for n in range(3):
            data = {"at": datetime.date(2024, 1, n + 1), "bad": "\\ud800"}
            await __event_emitter__({"type": "x", "data": data})
        return 'ok'"""
    events = caller.answer(tool("__event_emitter__", body))["events"]
    assert [event["n"] for event in events] == [0, 1, 2]
    assert events[2]["event"]["data"] == {"at": "2024-01-03", "bad": "\ufffd"}
    assert events[0]["at"] <= events[2]["at"]


@pytest.mark.parametrize(("end", "closed"), [("raise RuntimeError('x')", True), ("return 'ok'", False)])
def test_an_open_status_is_closed_after_a_failure(caller: Caller, end: str, closed: bool) -> None:
    body = f'await __event_emitter__({{"type": "status", "data": {{"description": "d", "done": False}}}}); {end}'
    events = [event["event"]["data"] for event in caller.answer(tool("__event_emitter__", body))["events"]]
    expected = [{"description": "d", "done": False}, {"description": "d", "done": True}]
    assert events == expected[: 1 + closed]


def test_questions_without_a_broker(caller: Caller) -> None:
    source = tool("__event_call__", 'return await __event_call__({"type": "input"})')
    result = caller.result(source)
    assert json.loads(result["content"]) == {"error": "Client session disconnected."}
    # Silence must not pass for a confirmation.
    asks = tool("__event_call__", 'return "did it" if await __event_call__({"type": "confirmation"}) else "left it"')
    assert caller.content(asks) == "left it"


def test_a_file_is_loaded_inside_the_loop(caller: Caller) -> None:
    source = (
        "import aiohttp, asyncio\nloop = asyncio.get_running_loop()\nclass Tools:\n"
        "    def __init__(self):\n        self.session = aiohttp.ClientSession()\n"
        '    async def run(self):\n        """Run."""\n'
        "        return [loop is asyncio.get_running_loop(), self.session.closed]"
    )
    assert caller.describe(source)["ok"]
    assert json.loads(caller.content(source))["results"] == [True, False]


def test_a_synchronous_function_runs_inside_the_loop(caller: Caller) -> None:
    source = (
        tool("__event_emitter__", "return 1")
        .replace("async def", "def")
        .replace("return 1", 'asyncio.get_running_loop().create_task(__event_emitter__({"type": "x"})); return "ok"')
    )
    answer = caller.answer(source)
    assert answer["result"]["content"] == "ok" and len(answer["events"]) == 1


def test_output_goes_to_the_logs(caller: Caller) -> None:
    answer = caller.answer(
        tool("", 'import os, sys; print("a"); print("b", file=sys.stderr); os.write(1, b"c"); return "ok"')
    )
    assert answer["result"]["content"] == "ok" and sorted(answer["logs"].split()) == ["a", "b", "c"]


def test_unknown_function(caller: Caller) -> None:
    assert caller.answer("class Tools: pass", "nope")["error"] == {
        "kind": "no_function",
        "message": 'Tool "nope" not found.',
    }
