"""Plugins that mean harm. Each returns what it got hold of, or raises what kept it from that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hostile:
    name: str
    code: str
    refused_by: str | None
    """The rule of the static analysis; None for code that it cannot tell from good code."""
    text: str
    """What the caller reads when the analysis is switched off."""
    status: int = 1


def _run(body: str, prelude: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{prelude}\nasync def run(command, context):\n{lines}\n"


DENIED = "Operation not permitted"

HOSTILE = (
    Hostile("loop", _run("while True: pass", "timeout = 300"), None, "within 300 ms", 10),
    Hostile(
        "backtrack",
        _run('return re.match("(a+)+$", "a" * 64 + "b")', "import re\ntimeout = 300"),
        None, "within 300 ms", 10,
    ),
    Hostile(
        "catch_everything",
        _run(
            "while True:\n    try:\n        await asyncio.sleep(0.01)\n"
            "    except BaseException:\n        pass",
            "import asyncio\ntimeout = 300",
        ),
        None, "within 300 ms", 10,
    ),
    Hostile("allocate", _run("held = []\nwhile True: held.append('x' * 100_000)"), None, "Memory"),
    Hostile("allocate_at_once", _run("return len('x' * 10**12)"), None, "MemoryError"),
    Hostile(
        "recurse", _run("def deeper(n): return deeper(n + 1)\nreturn deeper(0)"), None, "Recursion"
    ),
    Hostile("exit", _run("raise SystemExit(0)"), None, "SystemExit"),
    Hostile("not_json", _run("return object()"), None, "TypeError"),
    Hostile("its_own_tail", _run("a = []\na.append(a)\nreturn a"), None, "RecursionError"),
    Hostile("too_much", _run("return 'x' * 2_000_000"), None, "at most 1048576"),
    Hostile("fork", _run("import os\nreturn os.fork()"), "import", DENIED),
    Hostile(
        "exec", _run("import os\nos.execv('/bin/sh', ['sh', '-c', 'id'])"), "import", DENIED
    ),
    Hostile(
        "thread", _run("import _thread\n_thread.start_new_thread(len, ())"), "import", "start new"
    ),
    Hostile("kill_the_hub", _run("import os\nos.kill(os.getppid(), 9)"), "import", DENIED),
    Hostile("read_a_file", _run("return open('/etc/passwd').read()"), "forbidden-name", DENIED),
    Hostile("write_a_file", _run("open('/tmp/taken', 'w')"), "forbidden-name", DENIED),
    Hostile("list_a_folder", _run("import os\nreturn os.listdir('/')"), "import", DENIED),
    Hostile("read_memory", _run("return open('/proc/self/maps').read()"), "forbidden-name", DENIED),
    Hostile(
        "connect",
        _run("import socket\nsocket.socket().connect(('127.0.0.1', 80))"),
        "import", DENIED,
    ),
    Hostile("listen", _run("import socket\nreturn str(socket.socketpair())"), "import", DENIED),
    Hostile(
        "raise_limits",
        _run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))"),
        "import", "Error",
    ),
    Hostile(
        "system_call",
        _run(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "found = [libc.syscall(n, 0, 0, 0) for n in (41, 56, 57, 59, 101, 257, 310, 425)]\n"
            "raise ValueError(f'{found}')"
        ),
        "import", "[-1, -1, -1, -1, -1, -1, -1, -1]",
    ),
    Hostile(
        "machine_code",
        _run("import ctypes\nraise ValueError(ctypes.CDLL(None).mmap(0, 4096, 7, 34, -1, 0))"),
        "import", "ValueError: -1",
    ),
    Hostile(
        "subclasses",
        _run(
            "opened = [kind for kind in ().__class__.__base__.__subclasses__()[-1].__init__"
            ".__class__.__mro__]\n"
            "return open.__self__.open('/etc/passwd').read()"
        ),
        "dunder", DENIED,
    ),
    Hostile(
        "frames",
        _run(
            "g = (g.gi_frame.f_back for g in [None])\nf = run(1, 2).cr_frame\n"
            "return f.f_globals['__builtins__']['open']('/etc/passwd')"
        ),
        "internals", DENIED,
    ),
    Hostile(
        "format_string",
        _run("return ('{0.' + '__globals__' + '[secret]}').format(run)"), "format", "KeyError",
    ),
    Hostile(
        "poison_builtins",
        _run(
            "import builtins, msgspec, sys\n"
            "builtins.len = builtins.isinstance = lambda *a: 1 / 0\n"
            "msgspec.json.encode = lambda *a: b'}{'\n"
            "sys.modules['hubbub.connectors.plugins.execution'].__dict__['msgspec'] = None\n"
            "return 1"
        ),
        "import", "",
    ),
    Hostile(
        "speak_for_itself",
        _run(
            "import os\n"
            "for fd in range(3, 64):\n"
            "    try:\n        os.write(fd, b'\\xff\\xff\\xff\\x7f' + b'x' * 100)\n"
            "    except OSError: pass\n"
            "return 1"
        ),
        "import", "gone",
    ),
    Hostile(
        "end_the_process", _run("import os\nos._exit(3)"), "import", "gone"
    ),
    Hostile("crash", _run("import ctypes\nctypes.string_at(0)"), "import", "gone"),
    Hostile("environment", _run("import os\nraise ValueError(len(os.environ))"), "import", "1"),
)  # fmt: skip
