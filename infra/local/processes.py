"""Background processes of one local stack: started detached, found again by their pid file, ended by their pid."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process of a stack. The pid file also holds when it started, so that a reused pid is never taken for it."""

    name: str
    folder: Path

    @property
    def pid_file(self) -> Path:
        return self.folder / "pids" / self.name

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    def pid(self) -> int | None:
        """The pid, if the process runs."""
        try:
            pid, started = self.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _started(int(pid)) == started else None

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        self.pid_file.parent.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C in the terminal reaches only stack.py, which ends things in order.
                start_new_session=True,
            )
        self.pid_file.write_text(f"{child.pid} {_started(child.pid)}\n")

    def stop(self, patience: float = 30) -> None:
        """Ends the process and waits. SIGTERM first: the emulator writes its state then."""
        for attempt in (signal.SIGTERM, signal.SIGKILL):
            if (pid := self.pid()) is None:
                break
            os.kill(pid, attempt)
            until = time.monotonic() + patience
            while self.pid() is not None and time.monotonic() < until:
                _reap(pid)
                time.sleep(0.05)
        self.pid_file.unlink(missing_ok=True)

    def log_tail(self, lines: int = 20) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""


def _reap(pid: int) -> None:
    """Takes the exit status of a child of ours; a child of an earlier stack.py has been taken over by init."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _started(pid: int) -> str | None:
    """When the process started, in a form that is only good for comparison; None if there is none (or only a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc").exists():
            return None
        told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return "-".join(told.stdout.split()) or None
    return None if fields[0] == "Z" else fields[19]
