"""A child's guard: process 1 of the child's own namespace, or else the reaper of all its descendants.

It forks the child, watches what the child and its descendants use, and takes everything down when the parent says so,
hangs up, or a limit is passed. It tells the parent how the child ended. It runs no tool code.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import confine, linux
from .wire import Closed, Wire

_TICK = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Warden:
    """Watches one child process."""

    def __init__(self, control: Wire, child: int, processes: int, folder: str | None) -> None:
        self._control = control
        self._child = child
        self._pidfd = os.pidfd_open(child)
        # The kernel counts too, but not for user id 0.
        self._processes = processes
        # Without a file system of its own, the child's folder has to be measured.
        self._folder = folder
        self._memory = 0
        self._disk = 0
        # What a process shares with the zygote it was forked from is not the tool's doing.
        self._baseline = _anonymous(child)

    def run(self) -> None:
        """Returns when the child has ended and nothing of it is left."""
        reason = ""
        ended: int | None = None
        while ended is None:
            # The handle turns readable when the child ends.
            ready, _, _ = select.select([self._control, self._pidfd], [], [], _TICK if self._memory else 1.0)
            try:
                if self._control in ready and not self._obey():
                    reason = "stopped"
            except Closed:
                reason = "stopped"
            reason = reason or self._overdrawn()
            if reason:
                self._sweep()
            ended = self._reap()
        self._sweep()
        with contextlib.suppress(Closed):
            self._control.send({"ended": ended, "reason": reason})

    def _obey(self) -> bool:
        self._control.fill()
        while message := self._control.pop():
            if message.get("op") == "watch":
                self._memory, self._disk = message["memory"], message["disk"]
            elif message.get("op") == "settled":
                self._memory = 0
                self._reap()
                self._control.send({"left": len(_descendants(os.getpid())) - 1})
            else:
                return False
        return True

    def _overdrawn(self) -> str:
        if not self._memory:
            return ""
        pids = _descendants(os.getpid())
        if len(pids) > self._processes:
            return "processes"
        used = sum(max(_anonymous(pid) - self._baseline, 0) for pid in pids)
        if used > self._memory:
            return "memory"
        if self._folder and _size(self._folder, self._disk) > self._disk:
            return "disk"
        return ""

    def _reap(self) -> int | None:
        """Collects ended processes; returns the child's wait status once it is among them."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._child:
                    found = status
        return found

    def _sweep(self) -> None:
        """Kills all descendants, again and again, because those that are still there may fork."""
        deadline = time.monotonic() + 5
        while (left := [pid for pid in _descendants(os.getpid()) if not _dead(pid)]) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _dead(pid: int) -> bool:
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def _descendants(top: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and len(fields := _stat(int(entry))) > 1:
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found = [*parents.get(top, [])]
    for pid in found:
        found.extend(parents.get(pid, []))
    return found


def _anonymous(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE


def _size(folder: str, enough: int) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
            if total > enough:
                return total
    return total


def spawn(walls: confine.Walls, order: dict[str, Any], sockets: tuple[int, int, int], run_folder: str) -> None:
    """Becomes the warden of a new child, in a process forked for it; does not return."""
    import shutil

    channel, control, output = sockets
    limits = order["limits"]
    uid = confine.uid_for(order["number"]) if walls.own_uid else os.getuid()
    gid = uid if walls.own_uid else os.getgid()
    folder = confine.furnish(walls, uid, gid, limits["disk"], run_folder)
    if not walls.namespaces:
        linux.become_subreaper()
    child = os.fork()
    if child == 0:
        _become_child(walls, limits, uid, gid, folder, channel, output)
    os.close(channel)
    os.close(output)
    try:
        measured = None if walls.namespaces else folder
        Warden(Wire(socket.socket(fileno=control)), child, limits["processes"], measured).run()
    finally:
        if not walls.namespaces:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _become_child(
    walls: confine.Walls, limits: dict[str, int], uid: int, gid: int, folder: str, channel: int, output: int
) -> None:
    try:
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # 0 nothing, 1 and 2 the captured output, 3 the channel; nothing else stays open.
        spare = [os.dup(channel), os.dup(output), os.open(os.devnull, os.O_RDONLY)]
        for source, target in zip(_above(spare), (3, 1, 0), strict=True):
            os.dup2(source, target)
        os.dup2(1, 2)
        os.closerange(4, 65536)
        confine.settle(walls, uid, gid, folder, limits)
        home = os.path.join(folder, "home")
        os.mkdir(home, 0o700)
        os.environ.update(HOME=home, TMPDIR=folder)
        os.chdir(home)
        import tempfile

        tempfile.tempdir = None
        from .child import Child

        Child(Wire(socket.socket(fileno=3))).run()
    except BaseException:
        # A fault of ours, not of a tool; the captured output carries it to the logs.
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)


def _above(descriptors: list[int]) -> list[int]:
    """Moves descriptors out of the way of the low numbers they are about to get."""
    import fcntl

    return [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in descriptors]
