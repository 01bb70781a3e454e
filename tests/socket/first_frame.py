"""How long a piece of text takes from the provider's first delta to the client's first frame.

    python tests/socket/first_frame.py --port 9199     # plays the provider, http://127.0.0.1:9199/v1, until it is asked to measure
    BASE_URL=… ADMIN_EMAIL=… ADMIN_PASSWORD=… python tests/socket/first_frame.py --port 9199 --runs 40 [--concurrency 1]

Start the server under test with that provider (MODEL_API_BASE_URL) while the first form serves it, then end that and measure. Provider
and client are one process, so one clock times both. Needs aiohttp.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
import uuid
from itertools import chain
from typing import Any

import aiohttp
from aiohttp import web
from load import MODEL, Server, Tab

PIECES, PAUSE = 10, 0.05


class Provider:
    """An OpenAI-compatible provider that notes when it sent each answer's first piece, by the question."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        )

    async def complete(self, request: web.Request) -> web.StreamResponse:
        form: dict[str, Any] = await request.json()
        if not form.get("stream"):
            message = {"role": "assistant", "content": '{"title": "Measured"}'}
            return web.json_response(
                {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(
            PAUSE
        )  # a model thinks; the way up to here is not what is measured
        for i in range(PIECES):
            delta = {"index": 0, "delta": {"content": f"piece {i} "}}
            if i == 0:
                self.first[form["messages"][-1]["content"]] = time.time()
            await response.write(
                b"data: " + json.dumps({"choices": [delta]}).encode() + b"\n\n"
            )
            await asyncio.sleep(PAUSE)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def serve(self, port: int) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/chat/completions", self.complete)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()


async def run(server: Server, token: str, tab: Tab, provider: Provider) -> float:
    """One answer; the seconds from the provider's first piece to the tab's."""
    answer, question, prompt = (str(uuid.uuid4()) for _ in range(3))
    user = {"id": question, "parentId": None, "childrenIds": [answer], "role": "user"}
    made = {"id": answer, "parentId": question, "childrenIds": [], "role": "assistant"}
    history = {
        "messages": {
            question: {**user, "content": prompt, "models": [MODEL]},
            answer: {**made, "content": "", "model": MODEL, "done": False},
        },
        "currentId": answer,
    }
    form = {"chat": {"title": "first frame", "models": [MODEL], "history": history}}
    chat = (await server.call(token, "POST", "/api/v1/chats/new", form))["id"]
    body = {
        "model": MODEL,
        "stream": True,
        "chat_id": chat,
        "id": answer,
        "session_id": tab.session,
        "parent_id": question,
        "messages": [{"role": "user", "content": prompt}],
    }
    await server.call(token, "POST", "/api/chat/completions", body)
    until = time.time() + 60
    while not tab.over(chat):
        if time.time() > until:
            raise SystemExit("an answer did not end within a minute")
        await asyncio.sleep(0.02)
    heard = tab.first_piece(answer)
    if heard is None:
        raise SystemExit("no piece of text was heard")
    return heard - provider.first[prompt]


async def main(port: int, runs: int, concurrency: int) -> None:
    provider = Provider()
    await provider.serve(port)
    if not runs:
        await asyncio.Event().wait()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        server = Server(http)
        token = await server.sign_in(
            os.environ["ADMIN_EMAIL"], os.environ["ADMIN_PASSWORD"]
        )
        tabs = [await server.tab(token) for _ in range(concurrency)]
        for tab in tabs:
            await run(server, token, tab, provider)  # warm

        async def series(tab: Tab) -> list[float]:
            return [
                await run(server, token, tab, provider)
                for _ in range(runs // concurrency)
            ]

        took = sorted(chain(*await asyncio.gather(*map(series, tabs))))
        print(
            f"first delta to first frame, {len(took)} runs, {concurrency} at once: p50 {statistics.median(took) * 1000:.0f} ms, "
            f"p95 {took[int(len(took) * 0.95)] * 1000:.0f} ms, largest {took[-1] * 1000:.0f} ms"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=9199)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(main(options.port, options.runs, options.concurrency))
