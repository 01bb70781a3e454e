#!/usr/bin/env python3
"""A server of tools that does with a call what no server should: hostile.py PORT

GET /openapi.json has one operation for each way (GET /call/<way>), /mcp/<way> is an MCP server (streamable HTTP) with one tool whose
call, or whose beginning, goes that way. It speaks HTTP by hand, since libraries refuse to lie. GET /seen counts the calls of each way.
"""

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

CHUNK = b"x" * 65536
EVENT = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}\n\n'
seen: Counter[str] = Counter()


@dataclass
class Request:
    method: str
    path: str
    message: dict[str, Any]  # of JSON-RPC, {} for none

    @property
    def good(self) -> bytes:
        """The right answer to the call."""
        if not self.message:
            return b'{"fine": true}'
        result = {"content": [{"type": "text", "text": "fine"}]}
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()


def answer(body: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """An answer that ends with the connection, unless the headers give its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def whole(body: bytes, *headers: str, **more: str) -> bytes:
    return answer(body, f"Content-Length: {len(body)}", *headers, **more)


# Each yields what is sent; when it ends, so does the connection.
Way = Callable[[Request], AsyncIterator[bytes]]


async def silent(_: Request) -> AsyncIterator[bytes]:
    await asyncio.sleep(600)
    yield b""


async def slow_header(_: Request) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX-Slow: "
    while True:
        yield b"a"
        await asyncio.sleep(0.2)


async def trickle(_: Request) -> AsyncIterator[bytes]:
    yield answer(b"[")
    while True:
        yield b" "
        await asyncio.sleep(0.2)


async def endless(_: Request) -> AsyncIterator[bytes]:
    yield answer(b'"')
    while True:
        yield CHUNK


async def huge(_: Request) -> AsyncIterator[bytes]:
    yield answer(b'"', "Content-Length: 99999999999")
    while True:
        yield CHUNK


async def bomb(_: Request) -> AsyncIterator[bytes]:
    yield answer(b"", "Content-Encoding: gzip")
    block = gzip.compress(CHUNK * 1024)  # members may follow each other
    for _i in range(8):
        yield block


async def redirect_loop(request: Request) -> AsyncIterator[bytes]:
    yield whole(b"", f"Location: {request.path}", status="307 Temporary Redirect")


async def redirect_inwards(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"", "Location: http://169.254.169.254/latest/meta-data/", status="307 Temporary Redirect")


async def says_more(request: Request) -> AsyncIterator[bytes]:
    yield answer(request.good, "Content-Length: 5000")


async def says_less(request: Request) -> AsyncIterator[bytes]:
    yield answer(request.good, "Content-Length: 5")


async def dies_in_answer(request: Request) -> AsyncIterator[bytes]:
    yield answer(b"fff\r\n" + request.good[:5], "Transfer-Encoding: chunked")


async def closes(_: Request) -> AsyncIterator[bytes]:
    return
    yield b""


async def garbage(_: Request) -> AsyncIterator[bytes]:
    yield bytes(range(256)) * 4


async def header_flood(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"{}", "X-Flood: " + "x" * 600_000)


async def impossible_status(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"{}", status="999999 No")


async def web_page(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"<html><title>Sign in</title></html>", kind="text/html")


async def large_error(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"<h1>It broke</h1>" + b"y" * 4_000_000, status="500 Internal Server Error", kind="text/html")


async def broken_json(_: Request) -> AsyncIterator[bytes]:
    yield whole(b'{"a": [1, ')


async def broken_gzip(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"\x1f\x8bthis is not gzip", "Content-Encoding: gzip")


async def forgets_its_session(_: Request) -> AsyncIterator[bytes]:
    yield whole(b"Session not found", status="404 Not Found", kind="text/plain")


async def answers_another(request: Request) -> AsyncIterator[bytes]:
    other = {"jsonrpc": "2.0", "id": 987654, "result": json.loads(request.good)["result"]}
    yield whole(json.dumps(other).encode())


async def wrong_shapes(request: Request) -> AsyncIterator[bytes]:
    yield whole(json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"content": "text"}}).encode())


async def ends_its_stream(_: Request) -> AsyncIterator[bytes]:
    yield answer(EVENT % b"hello", kind="text/event-stream")


async def endless_events(_: Request) -> AsyncIterator[bytes]:
    yield answer(b"", kind="text/event-stream")
    while True:
        yield EVENT % CHUNK


async def never_begins(_: Request) -> AsyncIterator[bytes]:
    await asyncio.sleep(600)
    yield b""


async def begins_with_garbage(_: Request) -> AsyncIterator[bytes]:
    yield bytes(range(256))


async def endless_list(request: Request) -> AsyncIterator[bytes]:
    result = {"tools": [], "nextCursor": str(seen["mcp/endless-list"])}
    yield whole(json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode())


def by_name(*all_ways: Way) -> dict[str, Way]:
    return {way.__name__.replace("_", "-"): way for way in all_ways}


OPENAPI = by_name(
    silent,
    slow_header,
    trickle,
    endless,
    huge,
    bomb,
    redirect_loop,
    redirect_inwards,
    says_more,
    says_less,
    dies_in_answer,
    closes,
    garbage,
    header_flood,
    impossible_status,
    web_page,
    large_error,
    broken_json,
    broken_gzip,
)
MCP = by_name(
    forgets_its_session,
    answers_another,
    wrong_shapes,
    ends_its_stream,
    endless_events,
    never_begins,
    begins_with_garbage,
    endless_list,
)
# At which request of an MCP session it goes wrong, where that is not the call.
WHEN = {"never-begins": "initialize", "begins-with-garbage": "initialize", "endless-list": "tools/list"}


def document() -> bytes:
    paths = {f"/call/{way}": {"get": {"operationId": way, "summary": way, "responses": {}}} for way in OPENAPI}
    info = {"title": "Hostile", "version": "1"}
    return json.dumps({"openapi": "3.1.0", "info": info, "paths": paths}).encode()


def right(message: dict[str, Any]) -> bytes:
    """What a good MCP server answers."""
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "act", "description": "acts", "inputSchema": {"type": "object"}}]},
    }
    if "id" not in message or message.get("method") not in results:
        return whole(b"", status="202 Accepted")
    told = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
    return whole(json.dumps(told).encode(), "Mcp-Session-Id: s1")


async def respond(request: Request) -> AsyncIterator[bytes]:
    _, surface, *rest = request.path.split("/")
    way = rest[0] if rest else ""
    if surface == "openapi.json":
        yield whole(document())
    elif surface == "seen":
        yield whole(json.dumps(seen).encode())
    elif surface == "call":
        seen["call/" + way] += 1
        async for part in OPENAPI[way](request):
            yield part
    elif request.method != "POST":  # no stream of the server's own, and sessions need no end
        yield whole(b"", status="405 Method Not Allowed")
    elif request.message.get("method") == WHEN.get(way, "tools/call"):
        seen["mcp/" + way] += 1
        async for part in {**OPENAPI, **MCP}[way](request):
            yield part
    else:
        yield right(request.message)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in head[1:] if ":" in line}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        message = json.loads(body) if body else {}
        async for part in respond(Request(method, path, message)):
            writer.write(part)
            await writer.drain()
        writer.close()
    except (ConnectionError, asyncio.IncompleteReadError):  # the other side has had enough
        writer.transport.abort()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
