"""The process that children are forked from: heavy libraries imported once, walls put up once, no tool code ever.

Started by the parent with a clean environment; descriptor 3 is its channel. For each order it forks a warden, hands the
warden a handle (pidfd) to the parent, and forgets about it.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys

from . import confine, linux, warden

# In this order, in idle time: what tools import most often comes first.
PRELOADED = ("fastapi.responses", "requests", "httpx", "bs4", "aiohttp", "fastapi")


def main() -> None:
    settings = json.loads(sys.argv[1])
    channel = socket.socket(fileno=3)
    run_folder = settings["run_folder"]
    walls, builder = confine.prepare(set(settings["denied_ports"]), run_folder)
    # Not before: the maps of a user namespace are written through this process's own /proc, which this closes.
    linux.set_dumpable(False)
    for name in ("toolbox.child", "open_webui"):
        importlib.import_module(name)
    confine.finish(walls, builder, run_folder)
    channel.send(json.dumps({"walls": walls.as_json()}).encode())
    # Wardens outlive the process that forked them, and come to this one to be collected.
    linux.become_subreaper()
    # A signal handler is what makes waiting return when a warden ends.
    wake, noted = os.pipe()
    for end in (wake, noted):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    Zygote(channel, walls, run_folder, wake).run()


class Zygote:
    """The order loop."""

    def __init__(self, channel: socket.socket, walls: confine.Walls, run_folder: str, wake: int) -> None:
        self._channel = channel
        self._walls = walls
        self._run_folder = run_folder
        self._wake = wake
        self._wardens: set[int] = set()

    def run(self) -> None:
        idle = list(PRELOADED)
        gc.disable()
        while True:
            ready, _, _ = select.select([self._channel, self._wake], [], [], 0.02 if idle else 5.0)
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
                self._reap()
            if self._channel in ready:
                data, descriptors, _, _ = socket.recv_fds(self._channel, 65536, 3)
                if not data:
                    os._exit(0)
                self._spawn(json.loads(data), descriptors)
            elif not ready and idle:
                with contextlib.suppress(Exception):
                    importlib.import_module(idle.pop(0))
                if not idle:
                    # Collected objects that children never touch stay shared with them.
                    gc.collect()
                    gc.freeze()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._wardens.discard(ended)
        if not self._walls.namespaces:
            self._kill_orphans()

    def _kill_orphans(self) -> None:
        """A tool that killed its own warden leaves its processes to this one."""
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            for pid in (int(text) for text in file.read().split()):
                if pid not in self._wardens:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)

    def _spawn(self, order: dict, descriptors: list[int]) -> None:
        near, far = socket.socketpair()
        middle = os.fork()
        if middle == 0:
            near.close()
            self._middle(order, descriptors, far)
        far.close()
        for descriptor in descriptors:
            os.close(descriptor)
        self._wardens.add(middle)
        data, handles, _, _ = socket.recv_fds(near, 4096, 1)
        near.close()
        os.waitpid(middle, 0)
        self._wardens.discard(middle)
        answer = json.loads(data) if data else {"error": "the process that should start a child ended"}
        if "pid" in answer:
            self._wardens.add(answer["pid"])
        self._channel.sendmsg(
            [json.dumps(answer).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))]
        )
        for handle in handles:
            os.close(handle)

    def _middle(self, order: dict, descriptors: list[int], far: socket.socket) -> None:
        """Enters the child's namespaces, forks the warden into them, and ends; the zygote inherits the warden."""
        try:
            self._channel.close()
            signal.set_wakeup_fd(-1)
            confine.enter(self._walls)
            pid = os.fork()
            if pid == 0:
                far.close()
                gc.enable()
                warden.spawn(self._walls, order, (descriptors[0], descriptors[1], descriptors[2]), self._run_folder)
            handle = os.pidfd_open(pid)
            told = json.dumps({"pid": pid}).encode()
            far.sendmsg([told], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))])
        except BaseException as problem:
            far.send(json.dumps({"error": f"{type(problem).__name__}: {problem}"}).encode())
        finally:
            os._exit(0)


if __name__ == "__main__":
    main()
