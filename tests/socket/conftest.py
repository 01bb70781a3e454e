"""Clients of the project's own protocols against a running stack (BASE_URL, ADMIN_KEY or ADMIN_EMAIL and ADMIN_PASSWORD)."""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlparse

import pytest
import requests
import websocket

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:3000").rstrip("/")
MODEL = os.environ.get("MODEL", "stub-model")

TOOL = '''
import asyncio


class Tools:
    async def ask(self, question: str, __event_call__=None) -> str:
        """
        Ask the user.
        :param question: what
        """
        answer = await __event_call__({"type": "input", "data": {"title": question, "message": question}})
        return "ANSWER " + repr(answer)

    async def say(self, count: int, pause: float = 0.0, __event_emitter__=None) -> str:
        """
        Emit statuses.
        :param count: how many
        :param pause: seconds after each
        """
        for i in range(count):
            await __event_emitter__({"type": "status", "data": {"description": f"s{i}", "done": i == count - 1}})
            if pause:
                await asyncio.sleep(pause)
        return "SAID"

    async def big(self, __event_emitter__=None) -> str:
        """
        Emit a notification of 200 KB.
        """
        await __event_emitter__({"type": "notification", "data": {"type": "info", "content": "MARKER" + "x" * 200000}})
        return "ok"
'''


class User:
    """One account."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.http = requests.Session()
        self.http.headers["Authorization"] = "Bearer " + token

    def call(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        response = self.http.request(method, BASE_URL + path, json=body, timeout=60)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def message(self, chat: str, message: str) -> dict[str, Any]:
        return self.call("GET", "/api/v1/chats/" + chat)["chat"]["history"]["messages"][
            message
        ]

    def wait(self, chat: str, seconds: float = 30) -> None:
        until = time.time() + seconds
        while self.call("GET", "/api/tasks/chat/" + chat)["task_ids"]:
            assert time.time() < until, "the run does not end"
            time.sleep(0.1)


class Run:
    """One completion on a chat of its own."""

    def __init__(self, user: User, turns: list[dict[str, Any]], **more: Any) -> None:
        prompt = "script:" + json.dumps({"turns": turns})
        self.message = str(uuid.uuid4())
        asked = str(uuid.uuid4())
        self.chat = more.pop("chat_id", None)
        if self.chat is None:
            chat = {
                "title": "own protocols",
                "models": [MODEL],
                "history": {"messages": {}, "currentId": None},
            }
            self.chat = user.call("POST", "/api/v1/chats/new", {"chat": chat})["id"]
        body = {
            "model": MODEL,
            "stream": True,
            "chat_id": self.chat,
            "id": self.message,
            "session_id": "api-" + uuid.uuid4().hex,
            "tool_ids": ["own_protocols"],
            "parent_id": None,
            "messages": [{"role": "user", "content": prompt}],
            "user_message": {
                "id": asked,
                "role": "user",
                "content": prompt,
                "childrenIds": [self.message],
            },
            **more,
        }
        self.task = user.call("POST", "/api/chat/completions", body)["task_ids"][0]


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """A turn of the scripted model that calls one function."""
    return {"calls": [{"name": name, "arguments": arguments}]}


class Plain:
    """A client of the plain protocol."""

    def __init__(self, token: str | None, query: str = "") -> None:
        url = urlparse(BASE_URL)
        self.ws = websocket.create_connection(
            f"ws://{url.netloc}/ws/{query}", timeout=20
        )
        self.got: list[dict[str, Any]] = []
        if token is not None:
            self.send(type="auth", token=token)

    def send(self, **message: Any) -> None:
        self.ws.send(json.dumps(message))

    def until(
        self, check: Callable[[dict[str, Any]], bool], seconds: float = 20
    ) -> dict[str, Any]:
        """The first message that passes the check; all are kept."""
        end = time.time() + seconds
        while time.time() < end:
            self.ws.settimeout(max(0.05, end - time.time()))
            if not (raw := self.ws.recv()):
                raise websocket.WebSocketConnectionClosedException("closed")
            message = json.loads(raw)
            self.got.append(message)
            if check(message):
                return message
        raise AssertionError(f"not among {self.got}")

    def close(self) -> None:
        self.ws.close()


def final(message: dict[str, Any]) -> bool:
    """Whether it is the last event of a message."""
    return (message.get("data") or {}).get("type") == "chat:completion" and bool(
        message["data"]["data"].get("done")
    )


def inactive(message: dict[str, Any]) -> bool:
    data = message.get("data") or {}
    return data.get("type") == "chat:active" and data["data"].get("active") is False


@pytest.fixture(scope="session")
def user() -> User:
    key = os.environ.get("ADMIN_KEY") or os.environ.get("API_KEY")
    if not key:
        form = {
            "email": os.environ["ADMIN_EMAIL"],
            "password": os.environ["ADMIN_PASSWORD"],
        }
        key = requests.post(
            BASE_URL + "/api/v1/auths/signin", json=form, timeout=30
        ).json()["token"]
    made = User(key)
    form = {"id": "own_protocols", "name": "Own protocols", "content": TOOL, "meta": {}}
    if (
        made.http.get(
            BASE_URL + "/api/v1/tools/id/own_protocols", timeout=30
        ).status_code
        == 200
    ):
        made.call("POST", "/api/v1/tools/id/own_protocols/update", form)
    else:
        made.call("POST", "/api/v1/tools/create", form)
    return made


@pytest.fixture
def plain() -> Iterator[Callable[..., Plain]]:
    clients: list[Plain] = []

    def make(*args: Any, **more: Any) -> Plain:
        clients.append(Plain(*args, **more))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
