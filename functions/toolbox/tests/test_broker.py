"""The broker's protocol: events while the tool runs, questions by long poll, a stopped run, large results elsewhere."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import REMOTE, Caller

pytestmark = pytest.mark.skipif(bool(REMOTE), reason="the broker of the test is local")


class Broker(http.server.ThreadingHTTPServer):
    """Plays the broker and the store of spilled results, and notes what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/base"
        self.batches: list[list[dict[str, Any]]] = []
        self.asked: list[dict[str, Any]] = []
        self.states: list[dict[str, Any]] = []
        self.faults: list[int] = []
        self.delay = 0.0
        self.stored: dict[str, Any] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def events(self) -> list[Any]:
        return [event["event"] for batch in self.batches for event in batch]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Broker

    def _reply(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def do_POST(self) -> None:
        body = self._body()
        assert self.headers["Authorization"] == "Bearer token"
        time.sleep(self.server.delay)
        if self.server.faults:
            self._reply(self.server.faults.pop(0), {})
        elif self.path == "/base/events":
            self.server.batches.append(body["events"])
            self._reply(200, {})
        else:
            assert self.path == "/base/call"
            self.server.asked.append(body)
            self._reply(200, {"id": "q/1"})

    def do_GET(self) -> None:
        assert self.path.startswith("/base/call/q%2F1?wait=")
        state = self.server.states.pop(0) if self.server.states else {"state": "pending"}
        time.sleep(0.05)
        self._reply(410 if state == {"state": "stopped"} else 200, state)

    def do_PUT(self) -> None:
        self.server.stored[self.path] = self._body()
        self._reply(200, {})

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    server = Broker()
    yield server
    server.shutdown()


def tool(body: str) -> str:
    return (
        "import asyncio, time\nclass Tools:\n    async def run(self, __event_emitter__=None, __event_call__=None):\n"
        f'        """Run."""\n        {body}\n'
    )


def call(caller: Caller, broker: Broker, body: str, **more: Any) -> dict[str, Any]:
    return caller.answer(tool(body), broker={"url": broker.url, "token": "token"}, **more)


MANY = "for n in range(100): await __event_emitter__({'n': n})\n        return 'ok'"


def test_events_arrive_in_order_and_before_the_answer(caller: Caller, broker: Broker) -> None:
    broker.delay = 0.05
    answer = call(caller, broker, MANY)
    assert answer["result"]["content"] == "ok" and answer["events"] == []
    assert broker.events == [{"n": n} for n in range(100)]
    assert len(broker.batches) < 20, "what queues up while a post is under way goes out together"


def test_events_arrive_while_the_tool_runs(caller: Caller, broker: Broker) -> None:
    thread = threading.Thread(
        target=call, args=(caller, broker, "await __event_emitter__({'n': 1}); await asyncio.sleep(2); return 1")
    )
    thread.start()
    deadline = time.monotonic() + 1.9
    while not broker.batches and time.monotonic() < deadline:
        time.sleep(0.01)
    assert broker.events == [{"n": 1}] and thread.is_alive()
    thread.join()


def test_a_faltering_broker_gets_them_all(caller: Caller, broker: Broker) -> None:
    broker.faults = [500, 503]
    assert call(caller, broker, MANY)["events"] == []
    assert broker.events == [{"n": n} for n in range(100)]


def test_a_refusing_broker_leaves_them_to_the_answer(caller: Caller, broker: Broker) -> None:
    broker.faults = [401]
    answer = call(caller, broker, MANY)
    assert answer["result"]["content"] == "ok"
    assert [event["n"] for event in answer["events"]] == list(range(100))


def test_a_stopped_run_kills_the_tool(caller: Caller, broker: Broker) -> None:
    broker.faults = [410]
    begun = time.monotonic()
    answer = call(caller, broker, "await __event_emitter__({}); time.sleep(60)", seconds=30)
    assert time.monotonic() - begun < 10
    assert answer["result"] == {
        "content": "Error: the run was stopped.",
        "status": "failed",
        "embeds": [],
        "files": [],
        "images": [],
        "spilled": False,
    }


ASK = "return {'got': await __event_call__({'type': 'input', 'data': {}})}"


@pytest.mark.parametrize("value", [True, False, None, "text", 0, {"a": [1]}], ids=repr)
def test_answers_reach_the_tool(caller: Caller, broker: Broker, value: Any) -> None:
    broker.states = [{"state": "pending"}, {"state": "answered", "value": value}]
    answer = call(caller, broker, ASK, seconds=30)
    assert json.loads(answer["result"]["content"]) == {"got": value}
    assert broker.asked[0]["event"] == {"type": "input", "data": {}} and 20 <= broker.asked[0]["timeout"] <= 30


def test_a_failed_question(caller: Caller, broker: Broker) -> None:
    broker.states = [{"state": "failed", "error": "gone"}]
    assert json.loads(call(caller, broker, ASK)["result"]["content"]) == {"got": {"error": "gone"}}


def test_a_question_of_a_stopped_run(caller: Caller, broker: Broker) -> None:
    broker.states = [{"state": "pending"}, {"state": "stopped"}]
    assert call(caller, broker, ASK)["result"]["content"] == "Error: the run was stopped."


def test_the_time_limit_includes_the_waiting(caller: Caller, broker: Broker) -> None:
    result = call(caller, broker, ASK, seconds=1)["result"]
    assert result["status"] == "failed" and "timed out" in result["content"]


def test_questions_side_by_side(caller: Caller, broker: Broker) -> None:
    broker.states = [{"state": "answered", "value": 1}] * 3
    body = "return await asyncio.gather(*(__event_call__({'n': n}) for n in range(3)))"
    assert json.loads(call(caller, broker, body)["result"]["content"]) == {"results": [1, 1, 1]}


def test_a_large_result_is_put_where_it_was_asked_for(caller: Caller, broker: Broker) -> None:
    put = {"put_url": f"http://127.0.0.1:{broker.server_port}/store?key=1"}
    answer = caller.answer(tool("return 'é' * 5000000"), spill=put)
    assert answer["result"]["spilled"] and answer["result"]["content"] == ""
    stored = broker.stored["/store?key=1"]
    assert stored["content"] == "é" * 5_000_000 and stored["status"] == "completed"
    small = caller.answer(tool("return 'x'"), spill=put)["result"]
    assert small["content"] == "x" and not small["spilled"]
