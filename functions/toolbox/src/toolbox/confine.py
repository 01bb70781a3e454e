"""Which walls this machine allows, and putting them up: namespaces with a root, user ids, Landlock, seccomp.

Called in the zygote (once, `prepare`) and in each child's processes (`enter`, `settle`), never in the parent.
"""

import contextlib
import ctypes
import dataclasses
import functools
import os
import resource
import sys
import tempfile
from typing import Any

from . import landlock, linux, seccomp

_SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/var/lang",
    "/var/runtime",
    "/run/systemd/resolve",
)
# What programs read of /etc. Without a user id of its own a child could read the rest of it too.
_ETC = (
    *("ssl", "pki", "ca-certificates", "ca-certificates.conf", "crypto-policies", "resolv.conf", "hosts", "host.conf"),
    *("nsswitch.conf", "gai.conf", "services", "protocols", "passwd", "group", "localtime", "timezone", "os-release"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types", "alternatives", "python3", "fonts", "magic"),
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PACKAGES = "TOOLBOX_PACKAGES"


@dataclasses.dataclass
class Walls:
    """What stands between a child and the rest, as found out by trying. `ping` shows it, README.md explains it."""

    namespaces: bool = False
    own_uid: bool = False
    ports_closed: bool = False
    signals_scoped: bool = False
    files_scoped: bool = False
    seccomp: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def readable_paths() -> list[str]:
    """What a child must be able to read: the system, the interpreter, the code and its packages, certificates."""
    wanted = [*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
    wanted += [
        os.environ.get(name, "")
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", _PACKAGES)
    ]
    found: list[str] = []
    for path in sorted({os.path.realpath(path) for path in wanted if path} | set(_SYSTEM), key=len):
        covered = any(path == above or path.startswith(above + "/") for above in found)
        if os.path.exists(path) and path != "/" and not covered:
            found.append(path)
    return found


def prepare(denied: set[int], run_folder: str) -> tuple[Walls, landlock.Builder | None]:
    """Puts up, in the zygote, what all children share; `finish` has to follow when the imports are done."""
    walls = Walls()
    builder = landlock.Builder(denied) if landlock.version() >= 4 else None
    if builder is None:
        walls.notes.append("no Landlock port rules: the runtime API's and the emulator's ports are reachable")
    if problem := _tried(run_folder):
        walls.notes.append(f"no namespaces ({problem})")
    else:
        _own_root(run_folder)
        walls.namespaces = True
    walls.own_uid = os.getuid() == 0 and _may_read_as_other()
    return walls, builder


def finish(walls: Walls, builder: landlock.Builder | None, run_folder: str) -> None:
    """Closes the walls of the zygote itself. Nothing can be mounted or opened wider after this without namespaces."""
    linux.no_new_privileges()
    if builder is not None:
        walls.ports_closed = builder.finish()
        walls.signals_scoped = walls.ports_closed and landlock.version() >= 6
    walls.seccomp = seccomp_works()
    if not walls.namespaces and landlock.version():
        _keep_to(run_folder)
        walls.files_scoped = True


def _keep_to(folder: str) -> None:
    """Limits this process and what it will start to reading the system, and writing into one folder."""
    files = landlock.Ruleset(ports=False, files=True)
    for path in _system_paths():
        files.allow_path(path, write=False)
    for path in [folder, *(f"/dev/{name}" for name in _DEVICES)]:
        files.allow_path(path, write=True)
    files.restrict()


@functools.cache
def _system_paths() -> list[str]:
    """Found by the zygote, once for all its children."""
    etc = [f"/etc/{name}" for name in _ETC]
    return [*(path for path in readable_paths() if path != "/etc"), *etc, "/proc", "/sys", "/dev"]


def _tried(run_folder: str) -> str:
    """Goes the whole way to a child's namespaces in a process that is thrown away; returns what stood in the way.

    A platform may allow some steps and refuse a later one, and there is no way back from half of them.
    """
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        try:
            _own_root(run_folder)
            walls = Walls(namespaces=True)
            enter(walls)
            inner = os.fork()
            if inner == 0:
                furnish(walls, os.getuid(), os.getgid(), 1 << 20, run_folder)
                os.write(told, b"+")
        except BaseException as problem:
            os.write(told, str(problem).encode())
        else:
            if inner:
                os.waitpid(inner, 0)
        os._exit(0)
    os.close(told)
    with os.fdopen(heard, "rb") as file:
        answer = file.read().decode()
    os.waitpid(pid, 0)
    return "" if answer == "+" else answer or "the attempt ended without a word"


def _own_root(root: str) -> None:
    """Gives the zygote a root with only what children must read. Not run as root, it needs a user namespace."""
    uid, gid = os.getuid(), os.getgid()
    flags = linux.CLONE_NEWNS
    paths = readable_paths()
    if uid:
        linux.unshare(flags | linux.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    else:
        linux.unshare(flags)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m")
    for name in ("proc", "tmp", "dev", "run", "var"):
        os.mkdir(f"{root}/{name}")
    for path in paths:
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        else:
            _bind(path, root + path, is_folder=os.path.isdir(path))
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{root}/dev/{name}", is_folder=False, writable=True)
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    os.symlink("/tmp", f"{root}/dev/shm")
    os.symlink("/tmp", f"{root}/var/tmp")
    # The zygote's own /proc stays until each child mounts its own over it.
    linux.mount("/proc", f"{root}/proc", None, linux.MS_BIND | linux.MS_REC)
    linux.pivot_root(root)
    linux.mount(None, "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID)


def _bind(source: str, target: str, *, is_folder: bool, writable: bool = False) -> None:
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        with open(target, "x"):
            pass
    linux.mount(source, target, None, linux.MS_BIND | linux.MS_REC)
    if not writable:
        kept = linux.MS_NOSUID | linux.MS_NODEV
        linux.mount(None, target, None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | kept)


def _write(path: str, content: str) -> None:
    with open(path, "w") as file:
        file.write(content)


def _may_read_as_other() -> bool:
    """Whether another user id could still import: an interpreter in a private home folder shuts others out."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            readable = [os.path.dirname(os.__file__), *(path for path in sys.path if os.path.isdir(path))]
            code = 0 if all(os.access(path, os.R_OK | os.X_OK) for path in readable) else 1
        os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def uid_for(number: int) -> int:
    """Maps a hash to a user id inside the range that this machine (or its user namespace) has."""
    with open("/proc/self/uid_map") as file:
        end = max(int(start) + int(count) for start, _, count in (line.split() for line in file))
    first, last = (0x20000000, 0x30000000) if end > 0x30000000 else (20000, min(end, 60000))
    return first + number % max(last - first, 1)


def enter(walls: Walls) -> None:
    """In the process that is about to fork a child's warden: the namespaces that belong to one child alone."""
    if walls.namespaces:
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)


def furnish(walls: Walls, uid: int, gid: int, disk: int, run_folder: str) -> str:
    """In the warden: the child's own /proc and its own folder, which vanishes with it. Returns the folder."""
    if not walls.namespaces:
        folder = tempfile.mkdtemp(prefix="child-", dir=run_folder)
        os.chown(folder, uid, gid)
        return folder
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    # Code and packages may lie below /tmp (as they do locally); the new folder would hide them.
    below = {path: os.open(path, os.O_PATH) for path in readable_paths() if path.startswith("/tmp/")}
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode=1777,size={disk},nr_inodes=100000")
    for path, handle in below.items():
        _bind(f"/proc/self/fd/{handle}", path, is_folder=os.path.isdir(f"/proc/self/fd/{handle}"))
        os.close(handle)
    return "/tmp"


def settle(walls: Walls, uid: int, gid: int, folder: str, limits: dict[str, int]) -> None:
    """In the child, before any tool code: limits, user id, files, no capabilities, the system-call filter."""
    linux.die_with_parent()
    for kind, value in (
        (resource.RLIMIT_DATA, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
    if walls.own_uid:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        linux.die_with_parent()  # changing the user id clears it
    linux.drop_capabilities()
    linux.no_new_privileges()
    if walls.files_scoped:
        # The zygote's rules are all children's: these keep it from the others' folders and processes.
        _keep_to(folder)
    # Inside namespaces nobody else can look; without them, other children may run under the same user id.
    linux.set_dumpable(walls.namespaces)
    if walls.seccomp:
        seccomp.install()


def seccomp_works() -> bool:
    """Tries the filter in a process that is thrown away."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            linux.no_new_privileges()
            seccomp.install()
            ctypes.CDLL(None)
            code = 0
        os._exit(code)
    return os.waitpid(pid, 0)[1] == 0
