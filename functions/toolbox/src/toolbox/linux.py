"""The system calls that Python does not offer, by ctypes. Each raises OSError when the kernel refuses."""

import ctypes
import os
import platform

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38

MACHINE = platform.machine()


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(number: int, what: str, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), what)


def prctl(option: int, value: int, what: str) -> None:
    unsigned = (ctypes.c_ulong(part) for part in (value, 0, 0, 0))
    _check(_libc.prctl(ctypes.c_int(option), *unsigned), what)


def die_with_parent() -> None:
    prctl(_PR_SET_PDEATHSIG, 9, "PR_SET_PDEATHSIG")


def set_dumpable(on: bool) -> None:
    """Off: other processes of the same user can neither trace this one nor read its memory and environment."""
    prctl(_PR_SET_DUMPABLE, int(on), "PR_SET_DUMPABLE")


def become_subreaper() -> None:
    prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    options = None if data is None else data.encode()
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), options), f"mount {target}")


def pivot_root(new_root: str) -> None:
    """Makes a mount the root of this process and lets go of the old one (the documented way without a spare folder)."""
    os.chdir(new_root)
    number = {"x86_64": 155, "aarch64": 41}[MACHINE]
    syscall(number, "pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    _check(_libc.umount2(b".", 2), "umount2")
    os.chdir("/")


def drop_capabilities() -> None:
    """Gives up all capabilities, and with them the power of user id 0."""
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability, "PR_CAPBSET_DROP")
        except OSError:
            # Beyond the last capability of this kernel, or never had the right: then the set below is what counts.
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")
