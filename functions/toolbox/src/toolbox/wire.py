"""Frames over a stream socket: four bytes of length, then JSON. The same between all processes here."""

import contextlib
import json
import socket
import struct
import threading
from typing import Any

_HEAD = struct.Struct("!I")
# Above the largest result that is carried (64 MB) there is only a process that went mad.
MAX_FRAME = 80 * 1024 * 1024


class Closed(Exception):
    """The other end is gone, or sent what no frame looks like."""


class Wire:
    """One end of a frame channel. Sending is thread-safe; receiving belongs to one thread."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        try:
            with self._lock:
                self.sock.sendall(_HEAD.pack(len(body)) + body)
        except OSError as problem:
            raise Closed(str(problem)) from None

    def receive(self) -> dict[str, Any]:
        """Waits for the next frame."""
        while (frame := self.pop()) is None:
            self.fill()
        return frame

    def fill(self) -> None:
        """Reads what is there (waiting for at least something)."""
        try:
            data = self.sock.recv(1 << 20)
        except OSError as problem:
            raise Closed(str(problem)) from None
        if not data:
            raise Closed("end of stream")
        self._buffer += data

    def pop(self) -> dict[str, Any] | None:
        """Returns the next complete frame that was read, or None."""
        if len(self._buffer) < _HEAD.size:
            return None
        (size,) = _HEAD.unpack_from(self._buffer)
        if size > MAX_FRAME:
            raise Closed(f"a frame of {size} bytes")
        end = _HEAD.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        try:
            message = json.loads(body)
        except ValueError as problem:
            raise Closed(f"not JSON: {problem}") from None
        if not isinstance(message, dict):
            raise Closed("not an object")
        return message

    def close(self) -> None:
        # A shutdown also reaches copies of the descriptor that another thread is blocked on.
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
