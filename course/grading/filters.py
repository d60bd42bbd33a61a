"""System calls that no answer needs, refused by the kernel: tracing, namespaces, mounts, keys, System V memory.

What the namespaces hide is hidden without this. It takes away what would let a submission make namespaces of its own,
in which limits of size do not hold, and it leaves less of the kernel to try things on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
CLONE_NEW = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
OTHER_INTERFACE = 0x40000000  # x32 on x86_64

# The same on all machines: open_tree ... fspick, mount_setattr, pidfd_getfd, process_madvise, io_uring_setup.
EVERYWHERE = (428, 429, 430, 431, 432, 433, 442, 438, 440, 425)
# ptrace, process_vm_readv, process_vm_writev, kcmp, unshare, setns, mount, umount2, pivot_root, chroot, add_key,
# request_key, keyctl, bpf, perf_event_open, userfaultfd, kexec_load, init_module, finit_module, shmget, shmat, semget,
# msgget, mq_open.
REFUSED = {
    "x86_64": (
        *(101, 310, 311, 312, 272, 308, 165, 166, 155, 161, 248, 249, 250, 321, 298, 323, 246, 175, 313),
        *(29, 30, 64, 68, 240),
    ),
    "aarch64": (
        *(117, 270, 271, 272, 97, 268, 40, 39, 41, 51, 217, 218, 219, 280, 241, 282, 104, 105, 273),
        *(194, 196, 190, 186, 180),
    ),
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return os.uname().machine in REFUSED


def install() -> None:
    """Refuse these calls to this process and all that it starts. no_new_privs must be set. Raises OSError."""
    machine = os.uname().machine
    program = _program(machine)
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header, len(header)), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"the filter of system calls was refused: {os.strerror(number)}")


def _program(machine: str) -> bytes:
    lines = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    lines += [(AT_LEAST, 0, 1, OTHER_INTERFACE), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    for number in (*REFUSED[machine], *EVERYWHERE):
        lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    # Its flags are behind a pointer. The C library goes on with clone when there is no clone3.
    lines += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    lines += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    lines += [(ANY_BIT, 0, 1, CLONE_NEW), (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
