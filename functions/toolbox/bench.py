"""Latency of the container's handler, in this process, as an invocation would see it.

python functions/toolbox/bench.py [CALLS]     prints cold start, first call of a user, warm calls (p50, p95)
"""

import pathlib
import statistics
import sys
import time

started = time.perf_counter()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import app  # noqa: E402

SOURCE = '''
class Tools:
    async def echo(self, text: str) -> str:
        """Echo."""
        return text

    async def tell(self, text: str, __event_emitter__=None, __user__: dict = {}, __metadata__: dict = {}) -> dict:
        """Tell."""
        for done in (False, True):
            await __event_emitter__({"type": "status", "data": {"description": text, "done": done}})
        return {"text": text, "user": __user__["id"]}
'''


def call(user: str, function: str) -> float:
    event = {
        "op": "call",
        "tool": {"id": "bench", "version": "1", "source": SOURCE},
        "function": function,
        "arguments": '{"text": "hi"}',
        "user": {"id": user},
        "context": {"messages": [{"role": "user", "content": "x" * 2000}] * 10},
    }
    begun = time.perf_counter()
    answer = app.handler(event)
    assert answer["ok"] and answer["result"]["status"] == "completed", answer
    return (time.perf_counter() - begun) * 1000


def show(what: str, times: list[float]) -> None:
    times = sorted(times)
    p95 = times[min(len(times) - 1, int(len(times) * 0.95))]
    print(f"{what:34} n={len(times):5}  p50 {statistics.median(times):7.2f} ms  p95 {p95:7.2f} ms")


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    first = call("u0", "echo")
    whole = (time.perf_counter() - started) * 1000
    print(f"{'cold start and first call':34} n=    1  {whole:.0f} ms (call {first:.0f} ms)")
    show("first call of a user (new process)", [call(f"u{number}", "echo") for number in range(1, 21)])
    show("warm call, trivial tool", [call("u20", "echo") for _ in range(calls)])
    show("warm call, two events, dict result", [call("u20", "tell") for _ in range(calls)])


if __name__ == "__main__":
    main()
