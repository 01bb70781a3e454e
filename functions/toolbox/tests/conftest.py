"""The container as its callers meet it: a process that answers events, with secrets in its environment to be kept.

With `TOOLBOX_INVOKE_URL` (a runtime emulator's invocation URL) the same tests run against an image or a deployment.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SECRET = "toolbox-secret-marker"
REMOTE = os.environ.get("TOOLBOX_INVOKE_URL", "")

Answer = dict[str, Any]
Invoke = Callable[[dict[str, Any]], Answer]


class Listener:
    """A local service that tools must not reach; remembers whether anything connected."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                connection.close()


class Process:
    """The container's entry module in a process of its own, fed line by line."""

    def __init__(self, environment: dict[str, str], **options: Any) -> None:
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import app; from toolbox import lines; lines.main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, event: dict[str, Any]) -> Answer:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(event) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


def remote(event: dict[str, Any]) -> Answer:
    request = urllib.request.Request(REMOTE, json.dumps(event).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


@pytest.fixture(scope="session")
def runtime_api() -> Listener:
    return Listener()


@pytest.fixture(scope="session")
def emulator() -> Listener:
    return Listener()


@pytest.fixture(scope="session")
def invoke(runtime_api: Listener, emulator: Listener) -> Iterator[Invoke]:
    if REMOTE:
        yield remote
        return
    process = Process(
        {
            "AWS_ACCESS_KEY_ID": SECRET,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": SECRET,
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{runtime_api.port}",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{emulator.port}",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "768",
            "TOOLBOX_DISK_MB": "64",
            "UNRELATED_TOKEN": SECRET,
        }
    )
    yield process
    process.close()


@pytest.fixture(scope="session")
def isolation(invoke: Invoke) -> dict[str, Any]:
    return invoke({"op": "ping"})["isolation"]


class Caller:
    """Calls functions of tool sources."""

    def __init__(self, invoke: Invoke) -> None:
        self.invoke = invoke

    def answer(self, source: str, function: str = "run", arguments: Any = None, **more: Any) -> Answer:
        event = {
            "op": "call",
            "tool": {
                "id": more.pop("tool", "t"),
                "version": "",
                "source": source,
                "valves": more.pop("valves", {}),
                "user_valves": more.pop("user_valves", {}),
            },
            "function": function,
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
            "key": "r/1/0",
            "user": {"id": more.pop("user", "u1"), "name": "Ann", "email": "ann@example.com", "role": "user"},
            "context": more.pop("context", {}),
            "limits": {"seconds": more.pop("seconds", 20), **more.pop("limits", {})},
            **more,
        }
        return self.invoke(event)

    def result(self, source: str, function: str = "run", arguments: Any = None, **more: Any) -> Answer:
        answer = self.answer(source, function, arguments, **more)
        assert answer["ok"], answer
        return answer["result"]

    def content(self, source: str, function: str = "run", arguments: Any = None, **more: Any) -> str:
        result = self.result(source, function, arguments, **more)
        assert result["status"] == "completed", result
        return result["content"]

    def describe(self, source: str, tool: str = "t") -> Answer:
        return self.invoke({"op": "describe", "tool": {"id": tool, "source": source}})


@pytest.fixture(scope="session")
def caller(invoke: Invoke) -> Caller:
    return Caller(invoke)
