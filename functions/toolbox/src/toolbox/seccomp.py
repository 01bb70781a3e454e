"""A system-call filter for tool code: what no tool needs, and what would lead around the other walls.

A list of refusals, not of permissions: tools bring compiled libraries, whose needs nobody knows.
"""

import ctypes
import errno
import struct

from . import linux

_RET_ALLOW, _RET_ERRNO, _RET_KILL = 0x7FFF0000, 0x00050000, 0x80000000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_NR, _ARCH, _ARG0, _ARG2, _ARG3 = 0, 4, 16, 32, 40

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Numbers on x86_64 and aarch64. Refused with EPERM unless said otherwise below.
_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "open_by_handle_at": (304, 265),
    "pidfd_getfd": (438, 438),
    # These would open sockets without passing the check of `socket` below.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_SOCKET, _CLONE, _CLONE3 = (41, 198), (56, 220), (435, 435)
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink (which name lookups use)
_MPTCP = 262  # a kind of TCP that Landlock's port rules do not see
# Connecting while sending passes by the check of `connect`: the flag, and where each call has it.
_FAST_OPEN = 0x20000000
_SENDING = (((44, 206), _ARG3), ((46, 211), _ARG2), ((307, 269), _ARG3))  # sendto, sendmsg, sendmmsg
_NEW_NAMESPACES = 0x7E020000 | 0x00000080


def install() -> None:
    """Puts the filter on this process for good. Needs no_new_privs."""
    if linux.MACHINE not in _ARCHES:
        raise OSError(errno.ENOSYS, f"no filter for {linux.MACHINE}")
    code = _program(list(_ARCHES).index(linux.MACHINE))
    filters = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(filters)))
    linux.syscall((157, 167)[list(_ARCHES).index(linux.MACHINE)], "seccomp", _PR_SET_SECCOMP, _MODE_FILTER, program)


def _op(code: int, jt: int, jf: int, k: int) -> bytes:
    return struct.pack("HBBI", code, jt, jf, k)


def _load(offset: int) -> bytes:
    return _op(0x20, 0, 0, offset)


def _equal(value: int, jt: int, jf: int) -> bytes:
    return _op(0x15, jt, jf, value)


def _return(value: int) -> bytes:
    return _op(0x06, 0, 0, value)


def _program(column: int) -> bytes:
    refuse = _return(_RET_ERRNO | errno.EPERM)
    parts = [_load(_ARCH), _equal(list(_ARCHES.values())[column], 1, 0), _return(_RET_KILL), _load(_NR)]
    if column == 0:
        # The x32 calls are the same calls under other numbers.
        parts += [_op(0x35, 0, 1, 0x40000000), _return(_RET_ERRNO | errno.ENOSYS)]
    for numbers in _REFUSED.values():
        parts += [_equal(numbers[column], 0, 1), refuse]
    # clone3 hides its flags in memory; libraries fall back to clone when it does not exist.
    parts += [_equal(_CLONE3[column], 0, 1), _return(_RET_ERRNO | errno.ENOSYS)]
    parts += [_equal(_CLONE[column], 0, 4), _load(_ARG0), _op(0x45, 0, 1, _NEW_NAMESPACES), refuse, _return(_RET_ALLOW)]
    for numbers, flags in _SENDING:
        sending = [_load(flags), _op(0x45, 0, 1, _FAST_OPEN), refuse, _return(_RET_ALLOW)]
        parts += [_equal(numbers[column], 0, len(sending)), *sending]
    family_checks = [_equal(family, len(_FAMILIES) - index, 0) for index, family in enumerate(_FAMILIES)]
    socket = [_load(_ARG0), *family_checks, refuse, _load(_ARG2), _equal(_MPTCP, 0, 1), refuse, _return(_RET_ALLOW)]
    parts += [_equal(_SOCKET[column], 0, len(socket)), *socket, _return(_RET_ALLOW)]
    return b"".join(parts)
