"""The Lambda handler: one event in, one answer out, as `PROTOCOL.md` says."""

import atexit
import json
import os
import platform
from collections.abc import Callable
from typing import Any

from . import answer, frontmatter, packages, results, text
from .broker import Broker
from .nursery import Handle, Nursery, Unavailable
from .pool import Owner, Pool
from .run import STOPPED, Ended, Events, Run

Event = dict[str, Any]
Answer = dict[str, Any]

DESCRIBE_SECONDS = 30.0
CALL_SECONDS = 600.0
# Killing a child, flushing its events and writing the answer have to fit into what Lambda leaves after the call.
_MARGIN_SECONDS = 20.0
_DISK_MB = int(os.environ.get("TOOLBOX_DISK_MB", "256"))
_PROCESSES = int(os.environ.get("TOOLBOX_MAX_PROCESSES", "128"))

nursery = Nursery()
pool = Pool(nursery)
atexit.register(nursery.close)
atexit.register(pool.close)


class Rejected(Exception):
    """The operation cannot be done; becomes the answer's `error`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def handler(event: Event, context: Any = None) -> Answer:
    """Answers one event. Never raises: what goes wrong is in the answer."""
    try:
        operation = _OPERATIONS.get(event.get("op", "")) if isinstance(event, dict) else None
        if operation is None:
            raise Rejected("request", "The event names no operation that is known here.")
        return {"ok": True, **operation(event, context)}
    except Rejected as problem:
        return {"ok": False, "error": {"kind": problem.kind, "message": text.clean_str(str(problem))}}
    except Unavailable as problem:
        return {"ok": False, "error": {"kind": "unavailable", "message": str(problem)}}


def _ping(event: Event, context: Any) -> Answer:
    return {"python": platform.python_version(), "isolation": nursery.walls()}


def _describe(event: Event, context: Any) -> Answer:
    tool = _tool(event)
    lacking = packages.missing(frontmatter.requirements(frontmatter.parse(tool["source"])))
    paths = _installed(lacking)
    found = _aside({"op": "describe", "tool": tool, "paths": paths, "limits": event.get("limits")}, context)
    return {**found, "missing": [] if paths else lacking}


def _valves_spec(event: Event, context: Any) -> Answer:
    return _aside({"op": "valves_spec", "tool": _tool(event), "kind": _kind(event), "paths": _paths(event)}, context)


def _valves(event: Event, context: Any) -> Answer:
    if not isinstance(event.get("values"), dict):
        raise Rejected("request", "values must be an object.")
    job = {
        "op": "valves",
        "tool": _tool(event),
        "kind": _kind(event),
        "values": event["values"],
        "paths": _paths(event),
    }
    return _aside(job, context)


def _aside(job: Event, context: Any) -> Answer:
    """Runs a job that belongs to no user in a child of its own, which is gone afterwards."""
    memory, seconds = _memory_mb({}), _seconds(job.pop("limits", None) or {}, DESCRIBE_SECONDS, context)
    handle = pool.fresh(("", job["tool"]["id"]), _hard_limits())
    try:
        job["limits"] = _polite(memory, seconds)
        ended = Run(handle, seconds, Events(None), None).perform(job, memory << 20, _DISK_MB << 20)
    finally:
        handle.kill()
    if ended.failed is not None:
        raise Rejected(ended.failed.get("kind", "load"), ended.failed.get("message", ""))
    if ended.answer is None:
        raise Rejected("load", ended.error)
    return text.clean(ended.answer)


def _call(event: Event, context: Any) -> Answer:
    tool = _tool(event)
    if not isinstance(event.get("function"), str):
        raise Rejected("request", "function must be a name.")
    given = event.get("arguments") or "{}"
    limits = event.get("limits") or {}
    seconds = _seconds(limits, CALL_SECONDS, context)
    job = {
        "op": "call",
        "tool": tool,
        "function": event["function"],
        "arguments": given if isinstance(given, str) else json.dumps(given),
        "paths": _paths(event),
        "limits": _polite(_memory_mb(limits), limits.get("cpu_seconds") or seconds),
        **{key: event.get(key) for key in ("key", "user", "context")},
    }
    owner: Owner = (str((event.get("user") or {}).get("id") or ""), tool["id"], *job["paths"])
    broker = Broker(told["url"], told["token"]) if (told := event.get("broker")) else None
    try:
        return _run(job, owner, seconds, broker, event)
    finally:
        if broker is not None:
            broker.close()


def _run(job: Event, owner: Owner, seconds: float, broker: Broker | None, event: Event) -> Answer:
    limits = event.get("limits") or {}
    events = Events(broker)
    handle, _ = pool.take(owner, _hard_limits())
    run = Run(handle, seconds, events, broker)
    ended = Ended()
    try:
        ended = run.perform(job, _memory_mb(limits) << 20, _DISK_MB << 20)
    finally:
        _release(owner, handle, ended)
    if ended.failed is not None:
        raise Rejected(ended.failed.get("kind", "load"), ended.failed.get("message", ""))
    result = _result(ended)
    if result["status"] == "failed" and not ended.stopped:
        events.close_status()
    rest = events.rest()
    spill = event.get("spill") or {}
    logs = run.output.text()
    if events.dropped:
        logs += f"\n[{events.dropped} events were dropped: too many to keep.]"
    return {
        "result": answer.deliver(result, limits.get("result_bytes"), spill.get("put_url")),
        "events": text.clean(rest),
        "logs": logs,
    }


def _result(ended: Ended) -> Answer:
    if ended.stopped:
        return results.Result(f"Error: {STOPPED}", "failed").as_json()
    if ended.answer is None:
        return results.error(ended.error).as_json()
    checked = answer.checked(ended.answer.get("result"))
    return checked or results.error("The tool's process gave a result that nobody understands.").as_json()


def _release(owner: Owner, handle: Handle, ended: Ended) -> None:
    if ended.reusable:
        pool.give_back(owner, handle)
    else:
        handle.kill()


def _tool(event: Event) -> Event:
    tool = event.get("tool")
    if not isinstance(tool, dict) or not isinstance(tool.get("id"), str) or not isinstance(tool.get("source"), str):
        raise Rejected("request", "tool must be an object with an id and a source.")
    return tool


def _kind(event: Event) -> str:
    if event.get("kind") not in ("valves", "user_valves"):
        raise Rejected("request", 'kind must be "valves" or "user_valves".')
    return event["kind"]


def _paths(event: Event) -> list[str]:
    return _installed(packages.missing(frontmatter.requirements(frontmatter.parse(_tool(event)["source"]))))


def _installed(lacking: list[str]) -> list[str]:
    """Installs what is missing if that is enabled; without, a tool may still work, or its import says what it lacks."""
    if not lacking or not packages.may_install():
        return []
    try:
        return [str(packages.install(lacking))]
    except packages.InstallFailed as problem:
        raise Rejected("requirements", f"Installing {', '.join(lacking)} failed: {problem}") from None


def _seconds(limits: Event, default: float, context: Any) -> float:
    seconds = float(limits.get("seconds") or default)
    if hasattr(context, "get_remaining_time_in_millis"):
        left = context.get_remaining_time_in_millis() / 1000
        seconds = min(seconds, max(left - min(_MARGIN_SECONDS, left / 4), 0.1))
    return seconds


def _memory_mb(limits: Event) -> int:
    """The tool's share of the container's memory: what is left beside the parent and the zygote."""
    most = max(int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") or 1280) - 256, 128)
    return min(int(limits.get("memory_mb") or most), most)


def _polite(memory_mb: int, seconds: float) -> Event:
    # Stacks of threads and the like count here too, though mostly untouched: the warden measures what is really used.
    return {"memory_bytes": (memory_mb + 128) << 20, "cpu_seconds": seconds}


def _hard_limits() -> dict[str, int]:
    return {"memory": (_memory_mb({}) + 256) << 20, "disk": _DISK_MB << 20, "processes": _PROCESSES}


_OPERATIONS: dict[str, Callable[[Event, Any], Answer]] = {
    "ping": _ping,
    "describe": _describe,
    "valves_spec": _valves_spec,
    "valves": _valves,
    "call": _call,
}
