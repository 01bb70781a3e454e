"""Servers that are slow, huge, endless, lying, redirecting, dying or talking nonsense, through the deployed application: every run ends with
an answer, in time and within the function's memory, and the model is told what went wrong."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

import hostile
from peers import HERE, Connected, Peer, call, connection, use

LIMIT = int(os.environ["TOOL_SECONDS"])
# What a run needs besides: its steps, and cold starts on a busy machine.
SLACK = 45
# The memory of the function that makes the calls, in template.yaml.
MEMORY = 512 << 20

# What the model is told of each way, first as a call of an OpenAPI server, then as one of an MCP server. Where a server says something
# that can be read, however odd, it is shown: those calls are completed.
TOLD = {
    "silent": (f"did not finish within {LIMIT} seconds", f"did not finish within {LIMIT} seconds"),
    "slow-header": (f"did not finish within {LIMIT} seconds", f"did not finish within {LIMIT} seconds"),
    "trickle": (f"did not finish within {LIMIT} seconds", f"did not finish within {LIMIT} seconds"),
    "endless": ("too large", "larger than"),
    "huge": ("too large", "larger than"),
    "bomb": ("too large", "larger than"),
    "redirect-loop": ("too many redirects", "it answered 307"),
    "redirect-inwards": ("not allowed", "it answered 307"),
    "says-more": ("unexpected EOF", "connection broke off.*may have been carried out"),
    "says-less": ("COMPLETED", "not understood"),
    "dies-in-answer": ("unexpected EOF", "connection broke off.*may have been carried out"),
    "closes": ("did not answer: EOF", "connection broke off.*may have been carried out"),
    "garbage": ("malformed HTTP", "connection broke off"),
    "header-flood": ("header", "connection broke off"),
    "impossible-status": ("malformed HTTP", "connection broke off"),
    "web-page": ("COMPLETED<html>", "not understood"),
    "large-error": ("HTTP error 500: <h1>It broke", "it answered 500"),
    "broken-json": ('COMPLETED{"a": \\[1,', "not understood"),
    "broken-gzip": ("gzip: invalid header", "connection broke off"),
    "forgets-its-session": (None, "it answered 404"),
    "answers-another": (None, f"did not finish within {LIMIT} seconds"),
    "wrong-shapes": (None, "not understood"),
    "ends-its-stream": (None, "connection broke off"),
    "endless-events": (None, "larger than"),
}
CASES = [
    *[(kind, way, told[i]) for way, told in TOLD.items() for i, kind in enumerate(("openapi", "mcp")) if told[i]],
    *[("mcp", way, None) for way in hostile.WHEN],  # these are not there at all
]


@dataclass
class Played:
    run: Any
    message: dict[str, Any]
    took: float


@pytest.fixture(scope="module")
def server() -> Iterator[Peer]:
    with Peer(sys.executable, HERE / "hostile.py", "PORT", probe="/openapi.json") as peer:
        yield peer


def play(user: Any, kind: str, way: str) -> Played:
    begun = time.monotonic()
    tool, function = ("server:hostile", way) if kind == "openapi" else (f"server:mcp:{way}", f"{way}_act")
    run = use(user, tool, call(function))
    return Played(run, run.message, time.monotonic() - begun)


@pytest.fixture(scope="module")
def played(server: Peer, admin: Any, user: Any) -> Iterator[dict[tuple[str, str], Future[Played]]]:
    """All runs, some at a time: several of them last until the limit."""
    mcp = [connection("mcp", f"{server.url}/mcp/{way}", way) for kind, way, _ in CASES if kind == "mcp"]
    with Connected(admin, connection("openapi", server.url, "hostile"), *mcp), ThreadPoolExecutor(4) as pool:
        yield {(kind, way): pool.submit(play, user, kind, way) for kind, way, _ in CASES}


def test_every_way_is_tried() -> None:
    assert {way for kind, way, _ in CASES if kind == "openapi"} == set(hostile.OPENAPI)
    assert {way for kind, way, _ in CASES if kind == "mcp"} == set(hostile.OPENAPI) | set(hostile.MCP)


@pytest.mark.parametrize(("kind", "way", "told"), CASES, ids=[f"{kind}-{way}" for kind, way, _ in CASES])
def test_the_run_ends_and_says_why(
    played: dict[tuple[str, str], Future[Played]], server: Peer, kind: str, way: str, told: str | None
) -> None:
    p = played[kind, way].result()
    assert p.message["done"] is True, p.message
    assert "error" not in p.message
    assert p.took < LIMIT + SLACK
    [result] = p.run.items("function_call_output")
    [text] = p.run.results
    assert p.message["content"].strip().endswith("answer: " + text.strip()), p.message["content"][-300:]
    if told is None:
        if way == "endless-list":  # taken for a server without tools, after so many pages
            assert requests.get(server.url + "/seen", timeout=30).json()["mcp/endless-list"] <= 100
        else:
            [status] = p.message["statusHistory"]
            assert status["error"] is True
            assert way in status["description"]
        assert "not found" in text.lower() or "not available" in text.lower()
        return
    completed = told.startswith("COMPLETED")
    assert result["status"] == ("completed" if completed else "failed"), text
    assert re.search(told.removeprefix("COMPLETED"), text, re.DOTALL), text[:500]
    assert len(text) < 25_000
    # A call that may have had an effect is made once. What the server did not take is made again, in a session that it knows.
    times = requests.get(server.url + "/seen", timeout=30).json()
    expected = {"mcp/forgets-its-session": 2, "call/redirect-loop": 6}
    key = ("call/" if kind == "openapi" else "mcp/") + way
    assert times[key] == expected.get(key, 1)


def test_memory_stays_within_the_function(played: dict[tuple[str, str], Future[Played]]) -> None:
    for future in played.values():
        future.result()
    stack = Path(__file__).resolve().parents[2] / "infra" / "local" / "stack.py"
    command = [sys.executable, str(stack), "pids", "--function", "tool", "--name", os.environ["STACK"]]
    pids = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert pids
    peaks = [int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) << 10 for pid in pids]
    assert max(peaks) < MEMORY, peaks
