"""What a tool printed, bounded: the beginning is kept, the rest is read and thrown away so that the tool can go on."""

import contextlib
import os

LIMIT = 64 * 1024


class Output:
    """The captured output of one call."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()
        self._lost = 0
        self.open = True

    def fileno(self) -> int:
        return self._descriptor

    def read(self, at_most: int = 16) -> None:
        """Takes what is there, without waiting; a tool that prints for ever cannot hold the parent here."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(at_most):
                data = os.read(self._descriptor, 1 << 16)
                if not data:
                    self.open = False
                    return
                room = LIMIT - len(self._kept)
                self._kept += data[:room]
                self._lost += max(len(data) - room, 0)

    def text(self) -> str:
        text = self._kept.decode("utf-8", "replace")
        return f"{text}\n[{self._lost} more bytes of output are not shown.]" if self._lost else text
