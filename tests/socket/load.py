"""Many users with several sockets each, and one run of each user at once: who heard what, in which order, how soon.

    BASE_URL=… ADMIN_EMAIL=… ADMIN_PASSWORD=… python tests/socket/load.py [--users 50] [--tabs 4]

It speaks Socket.IO frame by frame, so any server of the contract can be measured. A tab is wrong that hears of another user's run,
misses a status or a piece of text, or hears anything of the message after its done event. Needs aiohttp.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
import uuid
from typing import Any

import aiohttp

BASE = os.environ.get("BASE_URL", "http://127.0.0.1:3000").rstrip("/")
MODEL = os.environ.get("MODEL", "stub-model")
STATUSES, PIECES, PAUSE = 5, 40, 0.1
TOOL = '''
class Tools:
    async def say(self, n: int, __event_emitter__=None) -> str:
        """
        Emit statuses.
        :param n: how many
        """
        for i in range(n):
            await __event_emitter__({"type": "status", "data": {"description": f"s{i}", "done": i == n - 1}})
        return "ok"
'''


class Tab:
    """One socket and what it has heard: the time, the payload, the size of the frame."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self.ws, self.session = ws, session
        self.heard: list[tuple[float, dict[str, Any], int]] = []
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        async for message in self.ws:
            if message.data == "2":
                await self.ws.send_str("3")
            elif str(message.data).startswith("42["):
                self.heard.append(
                    (time.time(), json.loads(message.data[2:])[1], len(message.data))
                )

    def over(self, chat: str) -> bool:
        return any(
            p.get("chat_id") == chat
            and p["data"]["type"] == "chat:active"
            and not p["data"]["data"]["active"]
            for _, p, _ in self.heard
        )

    def wrong(self, chat: str, message: str, text: str) -> str:
        """What is wrong with what was heard; empty for nothing."""
        if any(p.get("chat_id") != chat for _, p, _ in self.heard):
            return "a foreign run"
        mine = [p["data"] for _, p, _ in self.heard if p.get("message_id") == message]
        statuses = [d["data"]["description"] for d in mine if d["type"] == "status"]
        if statuses != [f"s{i}" for i in range(STATUSES)]:
            return f"statuses {statuses}"
        done = [
            i
            for i, d in enumerate(mine)
            if d["type"] == "chat:completion" and d["data"].get("done")
        ]
        if len(done) != 1 or any(
            d["type"] not in ("chat:active", "chat:list") for d in mine[done[0] + 1 :]
        ):
            return "not one done event as the last"
        return "" if held(mine[: done[0]]) == text else "text missing"

    def first_piece(self, message: str) -> float | None:
        return next(
            (
                at
                for at, p, _ in self.heard
                if p.get("message_id") == message and delta(p["data"])
            ),
            None,
        )


def delta(event: dict[str, Any]) -> str:
    data = event["data"]
    streams = (
        event["type"] == "response:completion"
        and data.get("type") == "response.output_text.delta"
    )
    return data["delta"] if streams else ""


def held(events: list[dict[str, Any]]) -> str:
    """The text that a client holds: pieces, and outputs that replace them."""
    text = ""
    for event in events:
        text += delta(event)
        if event["type"] == "chat:completion" and "output" in event["data"]:
            items = [i for i in event["data"]["output"] if i["type"] == "message"]
            text = "".join(part["text"] for item in items for part in item["content"])
    return text


class Server:
    """The server under test."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def ask(
        self, token: str, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        headers = {"Authorization": "Bearer " + token} if token else {}
        async with self.http.request(
            method, BASE + path, json=body, headers=headers
        ) as response:
            return response.status, await response.json(content_type=None)

    async def call(self, token: str, method: str, path: str, body: Any = None) -> Any:
        status, value = await self.ask(token, method, path, body)
        if status != 200:
            raise SystemExit(f"{method} {path}: {status} {value}")
        return value

    async def sign_in(self, email: str, password: str) -> str:
        session = await self.call(
            "", "POST", "/api/v1/auths/signin", {"email": email, "password": password}
        )
        return session["token"]

    async def prepare(self, admin: str) -> None:
        """The tool and the model, for everybody."""
        grants = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
        tool = {
            "id": "load_tool",
            "name": "Load",
            "content": TOOL,
            "meta": {"description": ""},
            "access_grants": grants,
        }
        await self.ask(admin, "POST", "/api/v1/tools/create", tool)
        model = {
            "id": MODEL,
            "base_model_id": None,
            "name": MODEL,
            "meta": {},
            "params": {},
            "access_grants": grants,
        }
        await self.ask(
            admin, "POST", "/api/v1/models/create", {**model, "is_active": True}
        )

    async def user(self, admin: str, number: int) -> str:
        form = {
            "name": f"Load {number}",
            "email": f"load-{number}@example.com",
            "password": "user-password-1",
            "role": "user",
        }
        await self.ask(admin, "POST", "/api/v1/auths/add", form)
        return await self.sign_in(form["email"], form["password"])

    async def tab(self, token: str) -> Tab:
        address = (
            BASE.replace("http", "ws", 1) + "/ws/socket.io/?EIO=4&transport=websocket"
        )
        ws = await self.http.ws_connect(address, max_msg_size=0)
        await ws.receive()
        await ws.send_str("40" + json.dumps({"token": token}))
        return Tab(ws, json.loads((await ws.receive()).data[2:])["sid"])

    async def start(
        self, token: str, session: str, text: str
    ) -> tuple[str, str, float]:
        """One run; returns its chat, its message and when it was sent."""
        call = {"calls": [{"name": "say", "arguments": {"n": STATUSES}}]}
        prompt = "script:" + json.dumps(
            {"turns": [call, {"text": text, "chunk": 10, "interval": PAUSE}]}
        )
        answer, question = str(uuid.uuid4()), str(uuid.uuid4())
        user = {
            "id": question,
            "parentId": None,
            "childrenIds": [answer],
            "role": "user",
            "content": prompt,
        }
        made = {
            "id": answer,
            "parentId": question,
            "childrenIds": [],
            "role": "assistant",
            "content": "",
            "done": False,
        }
        history = {
            "messages": {
                question: {**user, "models": [MODEL]},
                answer: {**made, "model": MODEL},
            },
            "currentId": answer,
        }
        form = {"chat": {"title": "load", "models": [MODEL], "history": history}}
        chat = (await self.call(token, "POST", "/api/v1/chats/new", form))["id"]
        begun = time.time()
        body = {
            "model": MODEL,
            "stream": True,
            "chat_id": chat,
            "id": answer,
            "session_id": session,
            "parent_id": question,
        }
        body |= {
            "tool_ids": ["load_tool"],
            "messages": [{"role": "user", "content": prompt}],
        }
        await self.call(
            token,
            "POST",
            "/api/chat/completions",
            {**body, "params": {"function_calling": "native"}},
        )
        return chat, answer, begun


async def main(users: int, tabs: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        server = Server(http)
        admin = await server.sign_in(
            os.environ["ADMIN_EMAIL"], os.environ["ADMIN_PASSWORD"]
        )
        await server.prepare(admin)
        tokens = [await server.user(admin, i) for i in range(users)]
        begun = time.time()
        sockets = [
            await asyncio.gather(*[server.tab(token) for _ in range(tabs)])
            for token in tokens
        ]
        print(f"{users * tabs} connections in {time.time() - begun:.1f} s")
        texts = [(f"{i:03}" + "-" * 7) * PIECES for i in range(users)]
        begun = time.time()
        runs = await asyncio.gather(
            *[
                server.start(tokens[i], sockets[i][0].session, texts[i])
                for i in range(users)
            ]
        )
        everybody = [
            (tab, *runs[i], texts[i]) for i in range(users) for tab in sockets[i]
        ]
        while time.time() - begun < 300 and not all(
            tab.over(chat) for tab, chat, *_ in everybody
        ):
            await asyncio.sleep(0.1)
        took = time.time() - begun
        wrong = [
            w
            for tab, chat, message, _, text in everybody
            if (w := tab.wrong(chat, message, text))
        ]
        heard = sum(len(tab.heard) for tab, *_ in everybody)
        largest = max(size for tab, *_ in everybody for *_, size in tab.heard)
        first = sorted(
            at - sent
            for tab, _, message, sent, _ in everybody
            if (at := tab.first_piece(message))
        )
        print(
            f"{took:.1f} s, {heard} events, {heard / took:.0f}/s, largest frame {largest} bytes, wrong {len(wrong)} {wrong[:3]}"
        )
        if first:
            print(
                f"request to first piece of text: p50 {statistics.median(first):.2f} s, p95 {first[int(len(first) * 0.95)]:.2f} s"
            )
        for tab, *_ in everybody:
            tab.reading.cancel()
            await tab.ws.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--tabs", type=int, default=4)
    options = parser.parse_args()
    asyncio.run(main(options.users, options.tabs))
