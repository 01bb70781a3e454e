"""The process in which tool code runs: takes jobs from the parent one at a time and answers each.

Everything here is at the mercy of the tool; the parent trusts nothing that comes from this process beyond its form, and
the limits set here are the polite ones (a clear error where Python can raise it). The warden enforces them.
"""

import asyncio
import collections
import concurrent.futures
import hashlib
import inspect
import math
import os
import queue
import resource
import sys
import threading
import time
import typing
from collections.abc import Callable
from typing import Any

from . import arguments, compat, frontmatter, inject, load, packages, results, text, valves
from .emitter import Channel
from .functions import Function
from .wire import Closed, Wire

CACHED = 4
# What a tool started without waiting for it may still finish in this time; then it is cancelled.
GRACE = 0.5

Job = dict[str, Any]
Answer = dict[str, Any]


class Child:
    """The job loop. One persistent event loop, because tools keep clients between calls that are bound to it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._channel = Channel(wire)
        self._cache: collections.OrderedDict[tuple[str, str, str], load.Toolkit] = collections.OrderedDict()
        self._loop = asyncio.new_event_loop()
        self._ops: dict[str, Callable[[Job], Answer]] = {
            "call": self._call,
            "describe": self._describe,
            "valves_spec": self._valves_spec,
            "valves": self._valves,
        }

    def run(self) -> None:
        """Works until the parent hangs up."""
        asyncio.set_event_loop(self._loop)
        compat.install()
        # By lines: what was printed before the process is killed is to be seen.
        sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        threading.Thread(target=self._listen, name="toolbox-reader", daemon=True).start()
        while True:
            job = self._jobs.get()
            if job.get("op") == "idle":
                self._wire.send({"idle": True})
                continue
            before = set(threading.enumerate())
            answer = self._answer(job)
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    # The tool closed or replaced it; its output is lost, its result is not.
                    continue
            answer["dirty"] = _threads_left(before)
            try:
                self._wire.send(answer)
            except Closed:
                os._exit(0)

    def _listen(self) -> None:
        try:
            while True:
                message = self._wire.receive()
                if "answer" in message:
                    self._channel.answered(message["answer"], message.get("value"))
                else:
                    self._jobs.put(message)
        except Closed:
            os._exit(0)

    def _answer(self, job: Job) -> Answer:
        try:
            _polite_limits(job.get("limits") or {})
            for path in job.get("paths") or []:
                if path not in sys.path:
                    sys.path.insert(0, path)
            return {"answer": self._ops[job["op"]](job)}
        except load.LoadFailed as problem:
            return {"failed": {"kind": problem.kind, "message": text.clean_str(str(problem))}}
        except valves.NoValves as problem:
            return {"failed": {"kind": "no_valves", "message": str(problem)}}
        except valves.NotValid as problem:
            return {"failed": {"kind": "valves", "message": text.clean_str(str(problem))}}
        except BaseException as problem:
            return {"failed": {"kind": "load", "message": text.clean_str(results.described(problem))}}

    def _toolkit(self, tool: dict[str, Any]) -> load.Toolkit:
        source = tool["source"]
        digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
        key = (tool["id"], str(tool.get("version") or ""), digest)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        toolkit = self._cache[key] = self._loop.run_until_complete(_loaded(tool["id"], source))
        if len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return toolkit

    def _describe(self, job: Job) -> Answer:
        toolkit = self._toolkit(job["tool"])
        missing = packages.missing(frontmatter.requirements(toolkit.manifest))
        return {
            "specs": [function.spec() for function in toolkit.functions.values()],
            "offered": [function.spec(offered=True) for function in toolkit.functions.values()],
            "manifest": toolkit.manifest,
            "has_valves": toolkit.settings("Valves") is not None,
            "has_user_valves": toolkit.settings("UserValves") is not None,
            "warnings": toolkit.warnings,
            "missing": missing,
        }

    def _valves_spec(self, job: Job) -> Answer:
        return {"schema": valves.spec(self._toolkit(job["tool"]), job["kind"])}

    def _valves(self, job: Job) -> Answer:
        return {"values": valves.accept(self._toolkit(job["tool"]), job["kind"], job["values"])}

    def _call(self, job: Job) -> Answer:
        toolkit = self._toolkit(job["tool"])
        function = toolkit.functions.get(job["function"])
        if function is None:
            raise load.LoadFailed("no_function", f'Tool "{job["function"]}" not found.')
        self._channel = Channel(self._wire)
        try:
            result = self._result(toolkit, function, job)
        except valves.NotValid as problem:
            result = results.error(f"The stored settings of this tool are not valid: {problem}")
        except arguments.Invalid as problem:
            result = results.error(str(problem))
        except BaseException as problem:
            result = results.error(_advice(problem))
        finally:
            self._channel.close()
        return {"result": result.as_json()}

    def _result(self, toolkit: load.Toolkit, function: Function, job: Job) -> results.Result:
        given = arguments.typed(function, arguments.decode(job["arguments"]))
        compat.like_mappings(given)
        settings = toolkit.settings("Valves")
        if settings is not None and hasattr(toolkit.instance, "valves"):
            toolkit.instance.valves = valves.instance(settings, job["tool"].get("valves") or {})
        compat.shim_context(job)
        values = {**given, **inject.reserved(toolkit, function, job, self._channel)}
        ahead = [
            values.pop(name)
            for name, parameter in _positional(function)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and name in values
        ]
        member = getattr(toolkit.instance, function.name)
        return results.convert(function.name, self._run(lambda: member(*ahead, **values)))

    def _run(self, start: Callable[[], Any]) -> Any:
        """Runs a function on the event loop, a synchronous one as well: that is where tools expect to be."""

        async def whole() -> Any:
            return await results.collect(start())

        executor = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="toolbox-executor")
        self._loop.set_default_executor(executor)
        try:
            return self._loop.run_until_complete(whole())
        finally:
            self._wind_up()
            executor.shutdown(wait=False, cancel_futures=True)

    def _wind_up(self) -> None:
        if not (left := asyncio.all_tasks(self._loop)):
            return
        _, running = self._loop.run_until_complete(asyncio.wait(left, timeout=GRACE))
        for task in running:
            task.cancel()
        if running:
            self._loop.run_until_complete(asyncio.wait(running, timeout=GRACE))


async def _loaded(tool_id: str, source: str) -> load.Toolkit:
    """Loads with the event loop running, as a server would: clients that a file opens in `Tools()` ask for it."""
    return load.load(tool_id, source)


def _positional(function: Function) -> list[tuple[str, typing.Any]]:
    """Parameters in the order of the signature; those that only go by position are always in front."""
    return [*function.parameters.items(), *function.reserved.items()]


def _threads_left(before: set[threading.Thread]) -> bool:
    deadline = time.monotonic() + 0.2
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                return True
    return False


def _polite_limits(limits: dict[str, Any]) -> None:
    """Lets Python raise its own error (MemoryError) before the warden has to end the process."""
    if memory := limits.get("memory_bytes"):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    if seconds := limits.get("cpu_seconds"):
        used = math.ceil(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + math.ceil(seconds), resource.RLIM_INFINITY))


def _advice(problem: BaseException) -> str:
    """The exception's own text, and which limit it ran into where the text alone does not tell."""
    message = results.described(problem)
    if isinstance(problem, OSError) and problem.errno in (27, 28, 122):
        return f"{message} (the tool's disk limit was reached)"
    if isinstance(problem, BlockingIOError) or "can't start new thread" in message:
        return f"{message} (the tool's limit of processes and threads was reached)"
    return message
