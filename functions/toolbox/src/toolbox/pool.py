"""Warm children by owner. A child serves one user and one tool: neither users nor tools can look at each other."""

import collections
import hashlib
import os
import select
import threading
import time

from .nursery import Handle, Nursery
from .wire import Closed

MAX_IDLE = int(os.environ.get("TOOLBOX_MAX_IDLE_CHILDREN", "8"))
IDLE_SECONDS = 900.0

Owner = tuple[str, ...]


class Pool:
    """Children that wait for their owner's next call; the longest unused go first."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._lock = threading.Lock()
        self._idle: collections.deque[tuple[Owner, float, Handle]] = collections.deque()

    def take(self, owner: Owner, limits: dict[str, int]) -> tuple[Handle, bool]:
        """Returns a child of this owner and whether it is a used one."""
        for handle in self._expired():
            handle.kill()
        while (handle := self._find(owner)) is not None:
            if _quiet(handle):
                return handle, True
            handle.kill()
        return self.fresh(owner, limits), False

    def fresh(self, owner: Owner, limits: dict[str, int]) -> Handle:
        """Returns a new child."""
        digest = hashlib.sha256("\0".join(owner).encode("utf-8", "surrogatepass")).digest()
        return self._nursery.order(int.from_bytes(digest[:8]), limits)

    def give_back(self, owner: Owner, handle: Handle) -> None:
        """Keeps a child for its owner's next call, unless its last call left processes behind."""
        try:
            left = handle.left()
        except (Closed, ValueError):
            left = 1
        if left:
            handle.kill()
            return
        with self._lock:
            self._idle.append((owner, time.monotonic(), handle))
            surplus = [self._idle.popleft()[2] for _ in range(len(self._idle) - MAX_IDLE)]
        for old in surplus:
            old.kill()

    def close(self) -> None:
        with self._lock:
            handles = [handle for _, _, handle in self._idle]
            self._idle.clear()
        for handle in handles:
            handle.kill()

    def _find(self, owner: Owner) -> Handle | None:
        with self._lock:
            for entry in reversed(self._idle):
                if entry[0] == owner:
                    self._idle.remove(entry)
                    return entry[2]
        return None

    def _expired(self) -> list[Handle]:
        found = []
        with self._lock:
            while self._idle and time.monotonic() - self._idle[0][1] > IDLE_SECONDS:
                found.append(self._idle.popleft()[2])
        return found


def _quiet(handle: Handle) -> bool:
    """A child that says something between calls has died, or runs code that it should not."""
    ready, _, _ = select.select([handle.wire, handle.control], [], [], 0)
    return not ready
