"""A system-call filter of the tests' own: nothing is started, connected, opened for writing, renamed or removed.

On x86-64 Linux only. A process that tries ends at once (SIGSYS).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
FILTER = 2
KILL = 0x80000000
ALLOW = 0x7FFF0000
ARCH = 0xC000003E
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: By number: sockets, processes, files that change, randomness.
DENIED = {
    "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "sendmsg": 46, "bind": 49, "listen": 50, "socketpair": 53,
    "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "truncate": 76, "ftruncate": 77, "rename": 82,
    "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "chown": 92,
    "ptrace": 101, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "accept4": 288,
    "sendmmsg": 307, "renameat2": 316, "getrandom": 318, "memfd_create": 319, "execveat": 322, "openat2": 437,
}  # fmt: skip


def supported() -> bool:
    """Whether this machine can."""
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def deny() -> None:
    """From now on, let this process touch nothing. There is no way back."""
    steps = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, ARCH), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for number in DENIED.values():
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, KILL)]
    # open(path, flags) and openat(dir, path, flags): allowed to read.
    for number, offset in ((2, 24), (257, 32)):
        steps += [
            (EQUAL, 0, 4, number),
            (LOAD, 0, 0, offset),
            (ANY_BIT, 0, 1, WRITING),
            (RETURN, 0, 0, KILL),
            (RETURN, 0, 0, ALLOW),
        ]
    steps.append((RETURN, 0, 0, ALLOW))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter was refused")
