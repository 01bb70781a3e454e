"""The caller's broker: posts a call's events while it runs, and asks its questions. Used by the parent only."""

import contextlib
import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

_BATCH = 200
_BATCH_BYTES = 256 * 1024
_QUEUE = 2000
_QUEUE_BYTES = 4 * 1024 * 1024
_PAUSES = (0.1, 0.4, 1.5, 4.0)
_QUESTIONS = 16
_POLL_SECONDS = 20
DISCONNECTED = "Client session disconnected."
TIMED_OUT = "Event call timed out. The browser tab may be inactive or closed."


class Stopped(Exception):
    """The broker answered 410: the run was stopped."""


class Refused(Exception):
    """The broker answered with another error; repeating the request is of no use."""


class Connection:
    """One kept-alive connection, for one thread."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        self._base = parts.path.rstrip("/")
        self._token = token
        secure = parts.scheme == "https"
        kind: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
        options: dict[str, Any] = {"timeout": _POLL_SECONDS + 15}
        if secure:
            kind, options["context"] = http.client.HTTPSConnection, ssl.create_default_context()
        self._http = kind(parts.hostname or "", parts.port, **options)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Sends one request, again after a fault of the transport or the server; returns the decoded answer."""
        problem: Exception = Refused("no answer")
        for pause in (*_PAUSES, None):
            try:
                return self._once(method, path, body)
            except (OSError, http.client.HTTPException, ValueError) as fault:
                problem = fault
                self._http.close()
            if pause is not None:
                time.sleep(pause)
        raise Refused(str(problem))

    def _once(self, method: str, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        self._http.request(method, self._base + path, content, headers)
        response = self._http.getresponse()
        answer = response.read()
        if response.status == 410:
            raise Stopped
        if response.status >= 500 or response.status == 429:
            raise OSError(f"HTTP {response.status}")
        if response.status >= 400:
            raise Refused(f"HTTP {response.status}")
        return json.loads(answer) if answer.strip() else {}

    def close(self) -> None:
        self._http.close()


class Broker:
    """One call's broker. `fileno` turns readable when the run was stopped."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changed = threading.Condition()
        self._queue: list[tuple[int, dict[str, Any]]] = []
        self._bytes = 0
        self._posting = 0
        self._broken = False
        self._ended = False
        self._asking = threading.BoundedSemaphore(_QUESTIONS)
        self._poster: threading.Thread | None = None

    def fileno(self) -> int:
        return self._stop

    def full(self) -> bool:
        """Whether the tool emits faster than the broker takes: then its process is to be made to wait."""
        return not self._broken and (len(self._queue) > _QUEUE or self._bytes > _QUEUE_BYTES)

    def post(self, event: dict[str, Any]) -> None:
        """Queues an event; what queues up while a post is under way goes out together, in order."""
        with self._changed:
            size = len(json.dumps(event))
            self._queue.append((size, event))
            self._bytes += size
            self._changed.notify_all()
            if self._poster is None:
                self._poster = threading.Thread(target=self._work, name="toolbox-broker", daemon=True)
                self._poster.start()

    def flush(self, seconds: float) -> list[dict[str, Any]]:
        """Waits until everything is posted; returns what could not be."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._queue and not self._broken and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return [event for _, event in self._queue]

    def ask(self, number: int, event: Any, seconds: float, answer: Callable[[Any], None]) -> None:
        """Asks in the background; `answer` gets the value, or an object with `error`."""
        if not self._asking.acquire(blocking=False):
            answer({"error": f"More than {_QUESTIONS} questions at once."})
            return

        def work() -> None:
            try:
                value = self._ask(number, event, seconds)
            finally:
                self._asking.release()
            answer(value)

        threading.Thread(target=work, name="toolbox-ask", daemon=True).start()

    def close(self) -> None:
        """Ends the threads; nothing is posted after this."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._poster is not None:
            self._poster.join(1.0)
        os.close(self._stop)
        self._stop = -1

    def _stopped(self) -> None:
        with self._changed:
            self._broken = True
            if self._stop >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_write(self._stop, 1)
            self._changed.notify_all()

    def _work(self) -> None:
        connection = Connection(self._url, self._token)
        while batch := self._next():
            try:
                connection.send("POST", "/events", {"events": batch})
            except Stopped:
                self._stopped()
                break
            except Refused:
                with self._changed:
                    self._broken = True
                    self._changed.notify_all()
                break
            with self._changed:
                self._bytes -= sum(size for size, _ in self._queue[: len(batch)])
                del self._queue[: len(batch)]
                self._changed.notify_all()
        connection.close()

    def _next(self) -> list[dict[str, Any]]:
        with self._changed:
            while not self._queue and not self._ended:
                self._changed.wait()
            if self._ended:
                return []
            batch: list[dict[str, Any]] = []
            room = _BATCH_BYTES
            for size, event in self._queue[:_BATCH]:
                if batch and size > room:
                    break
                room -= size
                batch.append(event)
            return batch

    def _ask(self, number: int, event: Any, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        try:
            connection = Connection(self._url, self._token)
            try:
                body = {"n": number, "event": event, "timeout": max(int(seconds), 1)}
                path = f"/call/{quote(str(connection.send('POST', '/call', body)['id']), safe='')}"
                while not self._ended:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        return {"error": TIMED_OUT}
                    told = connection.send("GET", f"{path}?wait={max(min(int(left), _POLL_SECONDS), 1)}")
                    if told.get("state") == "answered":
                        return told.get("value")
                    if told.get("state") == "failed":
                        return {"error": str(told.get("error") or DISCONNECTED)}
                    if told.get("state") != "pending":
                        raise Refused("an answer without a state")
            finally:
                connection.close()
        except Stopped:
            self._stopped()
        except (Refused, KeyError, AttributeError):
            pass
        return {"error": DISCONNECTED}
