"""The parent's side of the zygote: starts it, orders children from it."""

import array
import contextlib
import dataclasses
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from . import environment, packages
from .wire import Closed, Wire

DENY = "TOOLBOX_DENY_PORTS"
START_SECONDS = 60.0


class Unavailable(Exception):
    """No child can be had; a fault of the container, not of the tool."""


@dataclasses.dataclass
class Handle:
    """A running child: its channel, its warden's channel, what it prints, and the means to kill it."""

    wire: Wire
    control: Wire
    output: int
    pidfd: int
    namespaces: bool

    def kill(self) -> None:
        """Takes the child and all its descendants down. May be called again."""
        if self.pidfd < 0:
            return
        if not self.namespaces:
            # The warden is the only one that knows the descendants; it gets a moment to sweep.
            with contextlib.suppress(Closed):
                self.control.send({"op": "kill"})
            self.ending(6.0)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        # The first process of a namespace ends when all others in it have ended: then nothing of the child is left.
        select.select([self.pidfd], [], [], 2.0)
        for descriptor in (self.output, self.pidfd):
            os.close(descriptor)
        self.pidfd = -1
        self.wire.close()
        self.control.close()

    def ending(self, seconds: float) -> dict[str, Any]:
        """Waits for the warden's report on how the child ended; `{}` if none comes."""
        self.control.sock.settimeout(seconds)
        with contextlib.suppress(Closed):
            while True:
                message = self.control.receive()
                if "ended" in message:
                    return message
        return {}

    def left(self) -> int:
        """Returns how many processes the last call left behind; raises Closed if the child is still busy with it.

        Tool code can write a result to the channel by itself, and go on; only the job loop answers here.
        """
        self.wire.sock.settimeout(1.0)
        self.wire.send({"op": "idle"})
        if self.wire.receive() != {"idle": True}:
            raise Closed("still busy")
        self.control.sock.settimeout(2.0)
        self.control.send({"op": "settled"})
        return int(self.control.receive().get("left", 1))


class Nursery:
    """One zygote, started when first needed and again if it should die."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: str | None = None
        self._walls: dict[str, Any] | None = None

    def start(self) -> None:
        """Starts the zygote without waiting for it; harmless if it runs."""
        with self._lock:
            self._start()

    def walls(self) -> dict[str, Any]:
        """Returns what isolates children here, as the zygote found out."""
        with self._lock:
            self._ready()
            assert self._walls is not None
            return self._walls

    def order(self, number: int, limits: dict[str, int]) -> Handle:
        """Returns a new child for the owner with this number."""
        with self._lock:
            try:
                return self._order(number, limits)
            except (OSError, Unavailable):
                # The zygote died (or was killed for want of memory): one fresh start.
                self._drop()
                try:
                    return self._order(number, limits)
                except OSError as problem:
                    raise Unavailable(str(problem)) from None

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._drop()
        self._folder = tempfile.mkdtemp(prefix="toolbox-run-")
        os.chmod(self._folder, 0o711)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = json.dumps({"run_folder": self._folder, "denied_ports": sorted(denied_ports())})
        environ = {**environment.for_children(), "TOOLBOX_PACKAGES": str(packages.cache_root())}
        # A small launcher moves the channel to descriptor 3; everything else is closed by subprocess.
        launch = (
            f"import os,sys,runpy; os.dup2({far.fileno()}, 3); os.set_inheritable(3, False); os.closerange(4, 256); "
        )
        launch += "sys.argv = ['zygote', sys.argv[1]]; from toolbox import zygote; zygote.main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", launch, settings],
            env=environ,
            pass_fds=[far.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        far.close()
        self._channel = near
        self._walls = None

    def _ready(self) -> socket.socket:
        self._start()
        assert self._channel is not None
        if self._walls is None:
            self._channel.settimeout(START_SECONDS)
            told = self._channel.recv(65536)
            if not told:
                raise Unavailable("The process that children come from did not start.")
            self._walls = json.loads(told)["walls"]
        return self._channel

    def _order(self, number: int, limits: dict[str, int]) -> Handle:
        channel = self._ready()
        assert self._walls is not None
        channel.settimeout(30.0)
        wire_near, wire_far = socket.socketpair()
        control_near, control_far = socket.socketpair()
        output_near, output_far = os.pipe()
        given = [wire_far.fileno(), control_far.fileno(), output_far]
        order = json.dumps({"number": number, "limits": limits}).encode()
        try:
            channel.sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
            told, handles, _, _ = socket.recv_fds(channel, 65536, 1)
        finally:
            wire_far.close()
            control_far.close()
            os.close(output_far)
        answer = json.loads(told) if told else {}
        if not handles:
            os.close(output_near)
            raise Unavailable(f"No child could be started: {answer.get('error', 'no answer')}.")
        os.set_blocking(output_near, False)
        return Handle(Wire(wire_near), Wire(control_near), output_near, handles[0], self._walls["namespaces"])

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            deadline = time.monotonic() + 2
            while self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            self._process.kill()
            self._process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._channel = self._process = self._folder = self._walls = None


def denied_ports() -> set[int]:
    """The ports that tools must not reach: the Lambda runtime API's, the emulator's, and what the operator adds."""
    ports = {9001}
    for address in (os.environ.get("AWS_LAMBDA_RUNTIME_API", ""), os.environ.get("AWS_ENDPOINT_URL", "")):
        if address:
            parts = urlsplit(address if "//" in address else f"//{address}")
            ports.add(parts.port or (443 if parts.scheme == "https" else 80))
    ports.update(int(text) for text in os.environ.get(DENY, "").replace(",", " ").split() if text.isdigit())
    # Whatever was configured, tools keep the web.
    return ports - {80, 443}
