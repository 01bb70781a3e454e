"""Rights that are taken away while an answer is made end in its next round, whatever the rights hung on; and the run always ends."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import client
import pytest

SOURCE = """
import asyncio

class Tools:
    async def slow(self, __event_emitter__) -> str:
        \"\"\"Takes its time.\"\"\"
        await __event_emitter__({"type": "status", "data": {"description": "at work"}})
        await asyncio.sleep(2)
        return "done"
"""
CALL = {"calls": [{"name": "slow", "arguments": {}}]}
SCRIPT = {"turns": [CALL, CALL, {"text": "1 {{result:0}} 2 {{result:1}}"}]}
NOT_ASKED = "The account may not be used any more."


def grant(kind: str, who: str, permission: str = "read") -> dict[str, str]:
    return {"principal_type": kind, "principal_id": who, "permission": permission}


class Person:
    """An account of this test alone, whose rights come and go."""

    def __init__(self, admin: Any) -> None:
        self.admin = admin
        email = client.name("revoked") + "@example.com"
        body = {"name": "Revoked", "email": email, "password": "password123", "role": "user"}
        made = admin.post("/api/v1/auths/add", body).json()
        self.id, self.email = made["id"], email
        self.client = client.Client(admin.base, made["token"])
        group = admin.post("/api/v1/groups/create", {"name": client.name("group"), "description": ""}).json()
        self.group = group["id"]
        self.members("add")
        self.model = admin.create_model(grants=[grant("user", self.id)])

    def members(self, how: str) -> None:
        done = self.admin.post(f"/api/v1/groups/id/{self.group}/users/{how}", {"user_ids": [self.id]})
        assert done.status_code == 200, done.text

    def set_role(self, role: str) -> None:
        body = {"role": role, "name": "Revoked", "email": self.email, "profile_image_url": "/user.png"}
        done = self.admin.post(f"/api/v1/users/{self.id}/update", body)
        assert done.status_code == 200, done.text


@pytest.fixture
def person(admin: Any) -> Person:
    return Person(admin)


@pytest.fixture
def api() -> Iterator[tuple[str, threading.Event]]:
    """A tool server whose one operation takes its time, and whether it is at work."""
    at_work = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = {
                "openapi": "3.0.0",
                "info": {"title": "Slow", "version": "1"},
                "paths": {"/slow": {"get": {"operationId": "slow", "responses": {}}}},
            }
            if self.path == "/slow":
                at_work.set()
                time.sleep(2)
            body = json.dumps("done" if self.path == "/slow" else document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", at_work
    server.shutdown()


def begin(person: Person, tools: list[str], at_work: threading.Event | None = None) -> Any:
    """A run whose first call is under way: its tool or its server says so."""
    run = person.client.path_a(SCRIPT, tools, model=person.model, wait=False)
    assert run.response.status_code == 200, run.response.text
    until = time.time() + 60
    while not (at_work.is_set() if at_work else run.message.get("statusHistory")):
        assert time.time() < until, run.message
        time.sleep(0.1)
    return run


def ended(admin: Any, run: Any) -> dict[str, Any]:
    """The message when the run has ended, read by an administrator: its owner may be gone."""
    until = time.time() + 60
    while True:
        message = admin.message(run.chat_id, run.assistant_id)
        if message["done"]:
            return message
        assert time.time() < until, message
        time.sleep(0.2)


def take_grant(p: Person, tool: str) -> None:
    p.admin.post(f"/api/v1/tools/id/{tool}/access/update", {"access_grants": []})


def leave_group(p: Person, _: str) -> None:
    p.members("remove")


def delete_group(p: Person, _: str) -> None:
    p.admin.delete(f"/api/v1/groups/id/{p.group}/delete")


def delete_tool(p: Person, tool: str) -> None:
    p.admin.delete(f"/api/v1/tools/id/{tool}/delete")


@pytest.mark.parametrize("take", [take_grant, leave_group, delete_group, delete_tool])
def test_a_tool_that_is_taken_away(admin: Any, person: Person, take: Callable[[Person, str], None]) -> None:
    tool = admin.tool(SOURCE, grants=[grant("group", person.group)])
    run = begin(person, [tool])
    take(person, tool)
    message = ended(admin, run)
    assert message["content"].startswith("1 done 2 Error: "), message["content"]
    assert "not available any more" in message["content"]
    assert not message.get("error")


@pytest.mark.parametrize("take", ["grant", "connection"])
def test_a_server_that_is_taken_away(admin: Any, person: Person, api: tuple[str, threading.Event], take: str) -> None:
    url, at_work = api
    path, key = "/api/v1/configs/tool_servers", "TOOL_SERVER_CONNECTIONS"
    before = admin.get(path).json()[key]
    made: dict[str, Any] = {
        "url": url,
        "path": "openapi.json",
        "type": "openapi",
        "auth_type": "none",
        "key": "",
        "config": {"enable": True, "access_grants": [grant("group", person.group)]},
        "info": {"id": client.name("slow"), "name": "Slow", "description": ""},
    }
    admin.post(path, {key: [*before, made]})
    try:
        run = begin(person, ["server:" + made["info"]["id"]], at_work)
        made["config"]["access_grants"] = []
        admin.post(path, {key: [*before, made] if take == "grant" else before})
        message = ended(admin, run)
    finally:
        admin.post(path, {key: before})
    assert message["content"].startswith("1 done 2 Error: "), message["content"]
    assert "not available any more" in message["content"]


def become_pending(p: Person) -> None:
    p.set_role("pending")


def lose_model(p: Person) -> None:
    done = p.admin.post("/api/v1/models/model/access/update", {"id": p.model, "access_grants": []})
    assert done.status_code == 200, done.text


def lose_entry(p: Person) -> None:
    p.admin.post("/api/v1/models/model/delete", {"id": p.model})


@pytest.mark.parametrize(
    ("take", "why"),
    [(become_pending, NOT_ASKED), (lose_model, "Model not found"), (lose_entry, "Model not found")],
)
def test_a_model_or_an_account_that_is_taken_away(
    admin: Any, person: Person, stub: Any, take: Callable[[Person], None], why: str
) -> None:
    run = begin(person, [admin.tool(SOURCE, grants=[grant("user", person.id)])])
    take(person)
    message = ended(admin, run)
    assert message["error"] == {"content": why}
    assert [item["type"] for item in message["output"]] == ["function_call", "function_call_output"]
    assert len(stub.bodies(client.mark_of(run.prompt))) == 1, "the model was asked for somebody without rights"


def test_a_deleted_account(admin: Any, person: Person, stub: Any) -> None:
    run = begin(person, [admin.tool(SOURCE, grants=[grant("user", person.id)])])
    task = run.response.json()["task_ids"][0]
    assert admin.delete(f"/api/v1/users/{person.id}").status_code == 200
    until = time.time() + 60
    while task in admin.get("/api/tasks").json()["tasks"]:
        assert time.time() < until, "the run of a deleted account goes on"
        time.sleep(0.2)
    assert len(stub.bodies(client.mark_of(run.prompt))) == 1
    assert person.client.get("/api/models").status_code == 401


def test_a_deleted_chat(person: Person, admin: Any, stub: Any) -> None:
    run = begin(person, [admin.tool(SOURCE, grants=[grant("user", person.id)])])
    task = run.response.json()["task_ids"][0]
    assert person.client.delete("/api/v1/chats/" + run.chat_id).status_code == 200
    until = time.time() + 60
    while task in admin.get("/api/tasks").json()["tasks"]:
        assert time.time() < until, "the run of a deleted chat goes on"
        time.sleep(0.2)
    time.sleep(1)
    assert person.client.get("/api/v1/chats/" + run.chat_id).status_code == 401
    assert len(stub.bodies(client.mark_of(run.prompt))) == 1
