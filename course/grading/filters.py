"""System calls that no answer needs, refused by the kernel: tracing, namespaces, mounts, keys, System V memory.

What the namespaces hide is hidden without this. It takes away what would let a submission make namespaces of its own,
in which limits of size do not hold; what would let it change the limits or the priority of another process, since the
worker is the same user; and memory that is counted nowhere. And it leaves less of the kernel to try things on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT, FOURTH_ARGUMENT = 0, 4, 16, 24, 40
CLONE_NEW = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
OTHER_INTERFACE = 0x40000000  # x32 on x86_64

# The same on all machines: open_tree ... fspick, mount_setattr, pidfd_getfd, process_madvise, io_uring_setup,
# memfd_secret, process_mrelease.
EVERYWHERE = (428, 429, 430, 431, 432, 433, 442, 438, 440, 425, 447, 448)
# ptrace, process_vm_readv, process_vm_writev, kcmp, unshare, setns, mount, umount2, pivot_root, chroot, add_key,
# request_key, keyctl, bpf, perf_event_open, userfaultfd, kexec_load, init_module, finit_module, shmget, shmat, semget,
# msgget, mq_open, memfd_create, ioprio_set.
REFUSED = {
    "x86_64": (
        *(101, 310, 311, 312, 272, 308, 165, 166, 155, 161, 248, 249, 250, 321, 298, 323, 246, 175, 313),
        *(29, 30, 64, 68, 240, 319, 251),
    ),
    "aarch64": (
        *(117, 270, 271, 272, 97, 268, 40, 39, 41, 51, 217, 218, 219, 280, 241, 282, 104, 105, 273),
        *(194, 196, 190, 186, 180, 279, 30),
    ),
}
# Only to the process that asks, which names itself 0: prlimit64, sched_setparam, sched_setscheduler,
# sched_setaffinity, sched_setattr.
ONLY_ITSELF = {"x86_64": (302, 142, 144, 203, 314), "aarch64": (261, 118, 119, 122, 274)}
# socket and socketpair: local, IPv4, IPv6, and what lists the interfaces.
SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}
FAMILIES = (1, 2, 10, 16)
SET_PRIORITY = {"x86_64": 141, "aarch64": 140}
MAP = {"x86_64": 9, "aarch64": 222}
SHARED_ANONYMOUS = 0x21  # MAP_SHARED and MAP_ANONYMOUS: memory that stays when nobody has it mapped any more
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
    for number in ONLY_ITSELF[machine]:
        lines += _allowing(number, errno.EPERM, [(FIRST_ARGUMENT, (0,))])
    # The first 0: a process, not a user's processes.
    lines += _allowing(SET_PRIORITY[machine], errno.EPERM, [(FIRST_ARGUMENT, (0,)), (SECOND_ARGUMENT, (0,))])
    for number in SOCKETS[machine]:
        lines += _allowing(number, errno.EAFNOSUPPORT, [(FIRST_ARGUMENT, FAMILIES)])
    lines += [(EQUAL, 0, 5, MAP[machine]), (LOAD, 0, 0, FOURTH_ARGUMENT), (AND, 0, 0, SHARED_ANONYMOUS)]
    lines += [(EQUAL, 0, 1, SHARED_ANONYMOUS), (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    lines += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    lines += [(ANY_BIT, 0, 1, CLONE_NEW), (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _allowing(number: int, refusal: int, wanted: Sequence[tuple[int, Sequence[int]]]) -> Iterator[tuple[int, ...]]:
    """Refuse a call unless each of these arguments (32 bits, as the kernel takes them) has one of these values."""
    body: list[tuple[int, ...]] = []
    for place, values in wanted:
        body.append((LOAD, 0, 0, place))
        body += [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
        body.append((RETURN, 0, 0, REFUSE | refusal))
    body.append((RETURN, 0, 0, ALLOW))
    yield (EQUAL, 0, len(body), number)
    yield from body
