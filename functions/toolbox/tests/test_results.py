"""Results: from what a function returns to the text for the model and the things beside it."""

import json

import pytest
from conftest import Caller

HEAD = """
import asyncio, datetime, decimal, enum, uuid
from dataclasses import dataclass
from pydantic import BaseModel
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

INLINE = {"Content-Disposition": "inline"}
PNG = "data:image/png;base64,iVBORw0KGgo="

class Model(BaseModel):
    a: int = 1

@dataclass
class Data:
    a: int = 1
    at: datetime.date = datetime.date(2024, 5, 1)

class Odd:
    def __str__(self): return "odd"

class E(enum.Enum):
    a = "A"

def pieces():
    yield "a"
    yield "b"

def numbers():
    yield 1
    yield 2

async def later():
    yield "c"
    await asyncio.sleep(0)
    yield "d"

def circle():
    x = {}
    x["x"] = x
    return x

def deep():
    x = []
    for _ in range(100000): x = [x]
    return x
"""


def run(caller: Caller, expression: str, **more: object) -> dict:
    return caller.answer(
        f'{HEAD}\nclass Tools:\n    async def run(self):\n        """Run."""\n        return {expression}\n', **more
    )


TEXTS = {
    '"plain"': "plain",
    '""': "",
    "None": "",
    "7": "7",
    "1.5": "1.5",
    "True": "True",
    'b"raw"': "b'raw'",
    "{1}": "{1}",
    '{"é": 1}': '{\n  "é": 1\n}',
    '[1, "b"]': '{\n  "results": [\n    1,\n    "b"\n  ]\n}',
    '("x", 2)': '{\n  "results": [\n    "x",\n    2\n  ]\n}',
    "Model()": '{\n  "a": 1\n}',
    "Data()": '{\n  "a": 1,\n  "at": "2024-05-01"\n}',
    "E.a": "A",
    "Odd()": "odd",
    "pieces()": "ab",
    "numbers()": '{\n  "results": [\n    1,\n    2\n  ]\n}',
    "later()": "cd",
    "asyncio.sleep(0, 'slept')": "slept",
    'PlainTextResponse("t")': "t",
    'JSONResponse({"a": 1})': '{"a":1}',
    'HTMLResponse("<b>hi</b>")': "<b>hi</b>",
    "datetime.datetime(2024, 5, 1)": "2024-05-01T00:00:00",
    "decimal.Decimal('9.90')": "9.90",
    '"\\ud83d\\ude00 \\ud800"': "😀 \ufffd",
    "{(1, 2): 1}": '{\n  "(1, 2)": 1\n}',
    "circle()": '{\n  "x": "..."\n}',
}


@pytest.mark.parametrize("expression", TEXTS)
def test_texts(caller: Caller, expression: str) -> None:
    result = run(caller, expression)["result"]
    assert result["content"] == TEXTS[expression]
    assert result["status"] == "completed"


def test_values_that_json_does_not_know(caller: Caller) -> None:
    dated = '"at": datetime.date(2024, 5, 1), "price": decimal.Decimal("9.90")'
    expression = "{" + dated + ', "tags": {"x"}, "raw": b"hi", "m": Model()}'
    expected = {"at": "2024-05-01", "price": "9.90", "tags": ["x"], "raw": "hi", "m": {"a": 1}}
    assert json.loads(run(caller, expression)["result"]["content"]) == expected


def test_a_value_too_deep_for_json(caller: Caller) -> None:
    assert run(caller, "deep()")["ok"]


FAILED = [
    '"Error: no"',
    '"exception: no"',
    '"Traceback (most recent call last)"',
    '"HTTP error! 500"',
    '{"error": "bad"}',
    '{"status": "failed"}',
    '{"success": False, "message": "no"}',
]


@pytest.mark.parametrize("expression", FAILED)
def test_results_that_say_they_failed(caller: Caller, expression: str) -> None:
    assert run(caller, expression)["result"]["status"] == "failed"


@pytest.mark.parametrize(
    "expression", ['"No error: fine"', '{"error": None}', '{"success": False}', '{"ok": True, "message": "x"}']
)
def test_results_that_do_not(caller: Caller, expression: str) -> None:
    assert run(caller, expression)["result"]["status"] == "completed"


def test_exceptions(caller: Caller) -> None:
    source = 'class Tools:\n    def run(self, how: str):\n        """Run."""\n        exec(how)\n'

    def told(how: str) -> str:
        result = caller.result(source, arguments={"how": how})
        assert result["status"] == "failed"
        return json.loads(result["content"])["error"]

    assert (
        caller.result(source, arguments={"how": "raise ValueError('kaputt')"})["content"] == '{\n  "error": "kaputt"\n}'
    )
    assert told("raise KeyError") == "KeyError"
    assert told("raise ExceptionGroup('both', [ValueError('a'), TypeError('b')])") == "both (2 sub-exceptions): a; b"
    assert told("import asyncio; raise asyncio.CancelledError") == "CancelledError"


def test_inline_html(caller: Caller) -> None:
    result = run(caller, 'HTMLResponse("<b>hi</b>", headers=INLINE)')["result"]
    assert result["embeds"] == ["<b>hi</b>"] and result["status"] == "completed"
    assert json.loads(result["content"]) == {
        "status": "success",
        "code": "ui_component",
        "message": "run: Embedded UI result is active and visible to the user.",
    }


def test_inline_html_with_context(caller: Caller) -> None:
    result = run(caller, '(HTMLResponse("<b>hi</b>", headers=INLINE), {"note": "seen"})')["result"]
    assert result["embeds"] == ["<b>hi</b>"] and json.loads(result["content"]) == {"note": "seen"}


@pytest.mark.parametrize(("code", "told"), [(404, "Client error 404"), (500, "Server error 500")])
def test_inline_html_of_an_error(caller: Caller, code: int, told: str) -> None:
    result = run(caller, f'HTMLResponse("<b>hi</b>", status_code={code}, headers=INLINE)')["result"]
    assert result["embeds"] == ["<b>hi</b>"] and result["status"] == "failed" and told in result["content"]


def test_images(caller: Caller) -> None:
    result = run(caller, "PNG")["result"]
    assert result["content"] == "run: Image file read successfully." and len(result["images"]) == 1
    result = run(caller, '{"shot": PNG, "text": "t", "more": [PNG]}')["result"]
    assert json.loads(result["content"]) == {"shot": "[image]", "text": "t", "more": ["[image]"]}
    assert len(result["images"]) == 2
    result = run(caller, '["data:application/pdf;base64,AAAA", "text"]')["result"]
    assert json.loads(result["content"]) == {"results": ["text"]}
    assert result["files"] == [{"type": "data", "content": "data:application/pdf;base64,AAAA"}]


def test_large_results_are_cut_with_a_notice(caller: Caller) -> None:
    result = run(caller, '"0123456789" * 300000', limits={"result_bytes": 1000})["result"]
    assert len(result["content"].encode()) <= 1000 and "Truncated: the result has 3000000 bytes" in result["content"]
    for expression in ('"é" * 6000000', '"\\x00" * 6000000', '{"a": ["x" * 9000000]}', '(PNG + "A" * 9000000)'):
        answer = run(caller, expression)
        assert len(json.dumps(answer)) < 6_000_000
        assert "runcated" in answer["result"]["content"] or "omitted" in answer["result"]["content"]
