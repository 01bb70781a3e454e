"""Landlock: which TCP ports a process may connect to, whom it may signal and (without namespaces) which files it sees.

A ruleset lists what is allowed. All ports but a few is therefore some 65,000 rules, which take 0.1 s to write down;
this happens once, in a helper process beside the zygote's imports, and is inherited by every child.
"""

import array
import contextlib
import ctypes
import os
import socket
import struct

from . import linux

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_RULE_PATH, _RULE_PORT = 1, 2
_CONNECT_TCP = 2
_SCOPE_SOCKET_AND_SIGNAL = 3
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read_file, read_dir
_ALL_FILES = (1 << 13) - 1


def version() -> int:
    """Returns the kernel's Landlock version; 0 without Landlock. Ports need 4, signals 6."""
    try:
        return linux.syscall(_CREATE, "landlock", None, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """A ruleset under construction."""

    def __init__(self, *, ports: bool, files: bool) -> None:
        known = version()
        self.ports = ports and known >= 4
        self.signals = known >= 6
        handled = (_ALL_FILES if files else 0, _CONNECT_TCP if self.ports else 0, _SCOPE_SOCKET_AND_SIGNAL)
        # Older kernels know a shorter structure and refuse a longer one.
        fields = 3 if known >= 6 else 2 if known >= 4 else 1
        self.empty = not any(handled[:fields])
        attributes = struct.pack("Q" * fields, *handled[:fields])
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        self.descriptor = -1 if self.empty else linux.syscall(_CREATE, "landlock", buffer, len(attributes), 0)

    def allow_ports(self, denied: set[int]) -> None:
        if not self.ports:
            return
        rule = ctypes.create_string_buffer(16)
        for port in range(65536):
            if port not in denied:
                struct.pack_into("QQ", rule, 0, _CONNECT_TCP, port)
                linux.syscall(_ADD_RULE, "landlock", self.descriptor, _RULE_PORT, rule, 0)

    def allow_path(self, path: str, *, write: bool) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
            access = _ALL_FILES if write else _READ
            if not os.path.isdir(path):
                access &= 1 << 0 | 1 << 1 | 1 << 2
            rule = struct.pack("=Qi", access, parent)
            try:
                linux.syscall(_ADD_RULE, "landlock", self.descriptor, _RULE_PATH, ctypes.create_string_buffer(rule), 0)
            finally:
                os.close(parent)

    def restrict(self) -> None:
        """Puts the rules on this process for good. Needs no_new_privs or the right to administer the system."""
        linux.syscall(_RESTRICT, "landlock", self.descriptor, 0)
        os.close(self.descriptor)


class Builder:
    """Builds the port rules in a forked helper while this process does something else."""

    def __init__(self, denied: set[int]) -> None:
        self._near, far = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                ruleset = Ruleset(ports=True, files=False)
                ruleset.allow_ports(denied)
                far.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [ruleset.descriptor]))])
                code = 0
            os._exit(code)
        far.close()

    def finish(self) -> bool:
        """Puts the finished rules on this process; returns whether there are any."""
        data, descriptors, _, _ = socket.recv_fds(self._near, 1, 1)
        self._near.close()
        os.waitpid(self._pid, 0)
        if not data or not descriptors:
            return False
        linux.syscall(_RESTRICT, "landlock", descriptors[0], 0)
        os.close(descriptors[0])
        return True
