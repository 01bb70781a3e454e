"""One job on one child, seen from the parent: its time limit, events, questions, output and the ways it may end."""

import dataclasses
import selectors
import signal
import time
from typing import Any

from . import broker as brokers
from .nursery import Handle
from .output import Output
from .wire import Closed

# Without a broker the events travel in the answer, which has a size limit.
_HELD_BYTES = 1024 * 1024
_FLUSH_SECONDS = 15.0
STOPPED = "the run was stopped."


@dataclasses.dataclass
class Ended:
    """How a job ended: with the child's answer, with its refusal (`failed`), or with an error of the process."""

    answer: dict[str, Any] | None = None
    failed: dict[str, str] | None = None
    error: str = ""
    stopped: bool = False
    reusable: bool = False


class Events:
    """A call's events, numbered; to the broker if there is one, else held."""

    def __init__(self, broker: brokers.Broker | None) -> None:
        self._broker = broker
        self._next = 0
        self._status: dict[str, Any] | None = None
        self._held: list[dict[str, Any]] = []
        self._held_bytes = 0
        self.dropped = 0

    def add(self, event: Any) -> None:
        if isinstance(event, dict) and event.get("type") == "status":
            self._status = event
        numbered = {"at": time.time_ns() // 1_000_000, "n": self._next, "event": event}
        self._next += 1
        if self._broker is not None:
            self._broker.post(numbered)
            return
        self._held_bytes += len(str(numbered))
        if self._held_bytes > _HELD_BYTES:
            self.dropped += 1
        else:
            self._held.append(numbered)

    def close_status(self) -> None:
        """A status that the tool left open would turn for ever; after a failure nobody else will close it."""
        data = (self._status or {}).get("data")
        if isinstance(data, dict) and not data.get("done"):
            self._held_bytes = 0
            self.add({"type": "status", "data": {**data, "done": True}})

    def rest(self) -> list[dict[str, Any]]:
        """Returns the events that the broker did not take."""
        if self._broker is None:
            return self._held
        kept, size = [], 0
        for event in self._broker.flush(_FLUSH_SECONDS):
            size += len(str(event))
            if size > _HELD_BYTES:
                self.dropped += 1
            else:
                kept.append(event)
        return kept


class Run:
    """Runs one job."""

    def __init__(self, handle: Handle, seconds: float, events: Events, broker: brokers.Broker | None) -> None:
        self._handle = handle
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._events = events
        self._broker = broker
        self.output = Output(handle.output)

    def perform(self, job: dict[str, Any], memory: int, disk: int) -> Ended:
        """Gives the child the job and returns how it ended. Unless `reusable`, the child has to be killed."""
        for wire in (self._handle.wire, self._handle.control):
            wire.sock.settimeout(min(self._seconds, 30.0))
        try:
            self._handle.control.send({"op": "watch", "memory": memory, "disk": disk})
            self._handle.wire.send(job)
            ended = self._follow()
        except Closed:
            ended = self._died(None)
        self.output.read()
        return ended

    def _follow(self) -> Ended:
        with selectors.DefaultSelector() as selector:
            for source in (self._handle.wire, self._handle.control, self.output, self._broker):
                if source is not None:
                    selector.register(source, selectors.EVENT_READ)
            held_back = False
            while True:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    return Ended(error=f"The tool timed out after {self._seconds:g} s and was stopped.")
                if (full := self._broker is not None and self._broker.full()) != held_back:
                    held_back = full
                    if full:
                        selector.unregister(self._handle.wire)
                    else:
                        selector.register(self._handle.wire, selectors.EVENT_READ)
                ready = {key.fileobj for key, _ in selector.select(min(left, 0.05) if held_back else left)}
                if self._broker is not None and self._broker in ready:
                    return Ended(stopped=True)
                if self.output in ready:
                    self.output.read()
                    if not self.output.open:
                        selector.unregister(self.output)
                if self._handle.wire in ready and (ended := self._take()):
                    return ended
                if self._handle.control in ready:
                    return self._died(self._handle.ending(1.0))

    def _take(self) -> Ended | None:
        """Reads what the child sent; it may be anything, since tool code can write here."""
        try:
            self._handle.wire.fill()
            while message := self._handle.wire.pop():
                if "emit" in message:
                    self._events.add(message["emit"])
                elif "ask" in message:
                    self._question(message["ask"], message.get("event"))
                elif isinstance(answer := message.get("answer"), dict):
                    return Ended(answer=answer, reusable=not message.get("dirty"))
                elif isinstance(failed := message.get("failed"), dict):
                    return Ended(failed={key: str(value) for key, value in failed.items()})
                else:
                    return Ended(error="The tool's process sent what nobody understands and was stopped.")
        except Closed:
            return self._died(self._handle.ending(6.0))
        return None

    def _question(self, number: Any, event: Any) -> None:
        def answer(value: Any) -> None:
            try:
                self._handle.wire.send({"answer": number, "value": value})
            except (Closed, ValueError):
                # The call has ended meanwhile; nobody waits any more.
                return

        if self._broker is None or not isinstance(number, int):
            answer({"error": brokers.DISCONNECTED})
        else:
            self._broker.ask(number, event, max(self._deadline - time.monotonic(), 1.0), answer)

    def _died(self, report: dict[str, Any] | None) -> Ended:
        report = self._handle.ending(2.0) if report is None else report
        if report.get("reason") == "memory":
            return Ended(error="The tool used more memory than its memory limit and was stopped.")
        if report.get("reason") == "processes":
            return Ended(error="The tool started more processes than its process limit and was stopped.")
        if report.get("reason") == "disk":
            return Ended(error="The tool wrote more than its disk limit and was stopped.")
        return Ended(error=f"The tool's process ended unexpectedly ({_status(report.get('ended'))}).")


def _status(status: Any) -> str:
    if not isinstance(status, int):
        return "for an unknown reason"
    if (number := status & 0x7F) == 0:
        return f"exit code {status >> 8}"
    if number == signal.SIGXCPU:
        return "it used up its CPU time limit"
    if number == signal.SIGKILL:
        return "killed, most likely for want of memory"
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"
