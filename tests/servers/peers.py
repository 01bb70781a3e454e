"""Servers of tools, started and connected for tests."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import requests

HERE = Path(__file__).parent
EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
TOOL_SERVERS = "/api/v1/configs/tool_servers"
LIST = "TOOL_SERVER_CONNECTIONS"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class Peer:
    """A program that serves on PORT, as an argument or in its environment, until the with statement ends."""

    def __init__(self, *command: str | Path, probe: str = "/", **options: Any) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [str(part).replace("PORT", str(self.port)) for part in command]
        self.probe = self.url + probe
        self.options = options

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.command, **self.options)
        deadline = time.monotonic() + 90
        while True:
            try:
                requests.get(self.probe, timeout=5, stream=True).close()
                return self
            except requests.RequestException:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    raise RuntimeError(f"it does not start: {self.command}") from None
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


def connection(kind: str, url: str, connection_id: str, **more: Any) -> dict[str, Any]:
    """A connection that everybody may use."""
    return {
        "url": url,
        "path": "openapi.json" if kind == "openapi" else "",
        "type": kind,
        "auth_type": "none",
        "key": "",
        "config": {"enable": True, "access_grants": EVERYBODY},
        "info": {"id": connection_id, "name": connection_id, "description": "a test's"},
        **more,
    }


class Connected:
    """Connections that last until the with statement ends."""

    def __init__(self, admin: Any, *connections: dict[str, Any]) -> None:
        self.admin, self.connections = admin, list(connections)

    def write(self, connections: list[dict[str, Any]]) -> None:
        response = self.admin.post(TOOL_SERVERS, {LIST: connections})
        assert response.status_code == 200, response.text

    def __enter__(self) -> Self:
        self.before = self.admin.get(TOOL_SERVERS).json()[LIST]
        self.write(self.before + self.connections)
        return self

    def __exit__(self, *_: object) -> None:
        self.write(self.before)


def call(function: str, **arguments: Any) -> dict[str, Any]:
    return {"name": function, "arguments": arguments, "id": "c1"}


def use(client: Any, tool_ids: str | list[str], *calls: dict[str, Any], **more: Any) -> Any:
    """A run that makes the calls at once and then answers with the last result."""
    script = {"turns": [{"calls": list(calls)}, {"text": "answer: {{result}}"}]}
    return client.path_a(script, [tool_ids] if isinstance(tool_ids, str) else tool_ids, **more)
