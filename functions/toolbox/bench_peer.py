"""The tool of `bench.py` in Open WebUI's own loader, to compare: run it with the Python of an Open WebUI installation.

FROM_INIT_PY=true DATA_DIR=$(mktemp -d) WEBUI_SECRET_KEY=x PYTHON_OF_OPEN_WEBUI functions/toolbox/bench_peer.py [CALLS]
"""

import ast
import asyncio
import pathlib
import statistics
import sys
import time

from open_webui.utils.plugin import load_tool_module_by_id  # type: ignore[import-not-found]
from open_webui.utils.tools import (  # type: ignore[import-not-found]
    get_async_tool_function_and_apply_extra_params,
    get_tool_specs,
)


def source() -> str:
    """The tool of `bench.py`, which cannot be imported here."""
    tree = ast.parse(pathlib.Path(__file__).with_name("bench.py").read_text())
    named = (node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SOURCE")
    return ast.literal_eval(next(named).value)


async def emit(event: dict) -> None:
    """Stands for the server's emitter, without its socket."""


async def call(tools: object, function: str) -> float:
    begun = time.perf_counter()
    extra = {"__event_emitter__": emit, "__user__": {"id": "u"}, "__metadata__": {}}
    # The server binds what it injects anew for each completion.
    bound = await get_async_tool_function_and_apply_extra_params(getattr(tools, function), extra)
    assert await bound(text="hi")
    return (time.perf_counter() - begun) * 1000


async def load(number: int) -> tuple[float, object]:
    begun = time.perf_counter()
    module = await load_tool_module_by_id(f"bench{number}", content=source())
    tools = module[0]
    assert get_tool_specs(tools)
    return (time.perf_counter() - begun) * 1000, tools


def show(what: str, times: list[float]) -> None:
    times = sorted(times)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
    print(f"{what:34} n={len(times):5}  p50 {statistics.median(times):7.3f} ms  p95 {p95:7.3f} ms")


async def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    loads = [await load(number) for number in range(20)]
    show("load and specs (real server)", [taken for taken, _ in loads])
    tools = loads[0][1]
    for function, what in (("echo", "trivial tool"), ("tell", "two events, dict result")):
        show(f"warm call, {what} (real server)", [await call(tools, function) for _ in range(calls)])


if __name__ == "__main__":
    asyncio.run(main())
