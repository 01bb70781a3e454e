"""A client of server-sent events."""

import json
from collections.abc import Iterator
from typing import Any

from conftest import BASE_URL, User


def follow(user: User, chat: str, last: str = "") -> Iterator[tuple[str, str, Any]]:
    """The events of a chat as (id, name, data) until the stream ends."""
    headers = {"Last-Event-ID": last} if last else {}
    with user.http.get(
        f"{BASE_URL}/api/v1/chats/{chat}/events",
        headers=headers,
        stream=True,
        timeout=60,
    ) as response:
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"].startswith("text/event-stream")
        number, name, data = "", "message", ""
        for raw in response.iter_lines(chunk_size=1):
            line = raw.decode()
            if not line:
                if data:
                    yield number, name, json.loads(data)
                name, data = "message", ""
            elif line.startswith("id: "):
                number = line[4:]
            elif line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data += line[6:]
