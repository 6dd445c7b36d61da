"""Operating system limits around a plugin worker, which hold whatever code runs inside.

A seccomp filter permits only the socket to the hub, memory, time and exit: no system call opens a
file or a socket, starts a process or a thread, signals, traces or changes a limit. Resource limits
bound memory and processor time. Both are inherited and irrevocable.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_KILL = 0x80000000

# Instructions of the filter: load a word of the call's description, compare, return.
_LOAD = 0x20
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_BITS = 0x45
_RETURN = 0x06
_NUMBER, _ARCHITECTURE, _THIRD_ARGUMENT = 0, 4, 32
_X32_BIT = 0x40000000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CALLS = {
    # name: numbers on x86_64 and aarch64, None where there is no such call
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "poll": (7, None),
    "ppoll": (271, 73),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_CALLS_WITHOUT_EXEC = {"mmap": (9, 222), "mprotect": (10, 226)}
_PROT_EXEC = 4


class LimitsMissing(Exception):
    """This system lacks a limit that plugins need."""


def lock_down(memory_bytes: int, cpu_seconds: int) -> None:
    """Called once, in the only thread, after all imports. Raises `LimitsMissing` if a limit is
    missing or not enforced."""
    try:
        _limit_resources(memory_bytes, cpu_seconds)
    except (OSError, ValueError) as error:
        raise LimitsMissing(f"memory and processor time cannot be limited ({error})") from None
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, "PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(libc, "no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)
    instructions = b"".join(_filter())
    buffer = ctypes.create_string_buffer(instructions)
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
    )
    _prctl(libc, "seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))
    _prove()


def _limit_resources(memory_bytes: int, cpu_seconds: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    address_space = pages * resource.getpagesize() + memory_bytes
    for limit, most in (
        (resource.RLIMIT_AS, address_space),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(limit, (most, most))


def _prctl(libc: ctypes.CDLL, what: str, option: int, first: int, second: int = 0) -> None:
    arguments = (ctypes.c_ulong(value) for value in (first, second, 0, 0))
    if libc.prctl(option, *arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise LimitsMissing(f"the system refuses {what} ({reason})")


def _filter() -> Iterator[bytes]:
    """The filter's instructions: 16 bits of code, two jumps, 32 bits of operand."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise LimitsMissing(f"the calls of the kernel on {machine} are not known here")
    column = list(_ARCHITECTURES).index(machine)
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_JUMP_IF_EQUAL, _ARCHITECTURES[machine], then=1)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD, _NUMBER)
    if machine == "x86_64":
        yield _instruction(_JUMP_IF_BITS, _X32_BIT, otherwise=1)
        yield _instruction(_RETURN, _KILL)
    for numbers in _CALLS.values():
        number = numbers[column]
        if number is not None:
            yield _instruction(_JUMP_IF_EQUAL, number, otherwise=1)
            yield _instruction(_RETURN, _ALLOW)
    for numbers in _CALLS_WITHOUT_EXEC.values():
        yield _instruction(_JUMP_IF_EQUAL, numbers[column], otherwise=4)
        yield _instruction(_LOAD, _THIRD_ARGUMENT)
        yield _instruction(_JUMP_IF_BITS, _PROT_EXEC, otherwise=1)
        yield _instruction(_RETURN, _REFUSE)
        yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_RETURN, _REFUSE)


def _instruction(code: int, operand: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, operand)


def _prove() -> None:
    """Verifies the filter: one that is accepted and ignored would be worse than none."""
    attempts: tuple[tuple[str, Callable[[], object]], ...] = (
        ("files", lambda: os.open("/dev/null", os.O_RDONLY)),
        ("sockets", socket.socket),
        ("processes", _fork),
    )
    for what, attempt in attempts:
        try:
            attempt()
        except PermissionError:
            continue
        except OSError as error:
            raise LimitsMissing(f"seccomp does not keep from {what} ({error})") from None
        raise LimitsMissing(f"seccomp is accepted and does not keep from {what}")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
