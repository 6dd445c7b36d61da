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
    """The caller's error text if the analysis is disabled."""
    status: int = 1


def _run(body: str, prelude: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{prelude}\nasync def run(command, context):\n{lines}\n"


DENIED = "Operation not permitted"

_LINK = (
    "import os, sys\n"
    "frame = sys._getframe()\n"
    "while frame.f_code.co_name != '_step': frame = frame.f_back\n"
    "number, frame = frame.f_locals['call'].id, frame.f_back\n"
    "while 'options' not in frame.f_locals: frame = frame.f_back\n"
    "link = frame.f_locals['options'].link\n"
    "def say(text):\n"
    "    rest = len(text).to_bytes(4, 'little') + text.encode()\n"
    "    while rest: rest = rest[os.write(link, rest):]\n"
)
"""Finds the call's number and the socket to the hub, and a way to say anything over it."""

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
    Hostile(
        "sleep_for_ever",
        _run("await asyncio.sleep(1e300)", "import asyncio\ntimeout = 300"),
        None, "within 300 ms", 10,
    ),
    Hostile(
        "ask_without_end",
        _run(
            "while True:\n    try:\n        await context.channel('none')\n"
            "    except CommandRefused:\n        pass"
        ),
        None, "asked its context more than 1000 times",
    ),
    Hostile("refuse_oddly", _run("raise CommandRefused(5, chr(0xd800))"), None, "?", 5),
    Hostile("refuse_beyond_bounds", _run("raise CommandRefused(2**40)"), None, "CommandRefused"),
    Hostile(
        "frames_by_pattern",
        _run(
            "generator = frames(held := [])\nheld.append(generator)\n"
            "for found in next(generator):\n"
            "    if 'sys' in found: return found['sys'].modules['posix'].open('/etc/passwd', 0)",
            "from collections import namedtuple\nfrom collections.abc import Sized\n"
            "Generator = namedtuple('Generator', 'gi_frame')\n"
            "Frame = namedtuple('Frame', 'f_back f_globals')\n"
            "class Generators(Generator, Sized):\n    pass\n"
            "class Frames(Frame, Sized):\n    pass\n"
            "def frames(held):\n"
            "    seen = []\n"
            "    Generators.register(type(held[0]))\n"
            "    match held[0]:\n"
            "        case Generators(frame):\n            Frames.register(type(frame))\n"
            "    while frame is not None:\n"
            "        match frame:\n"
            "            case Frames(frame, found):\n                seen.append(found)\n"
            "    yield seen",
        ),
        "load", DENIED,
    ),
    Hostile(
        "modules_by_enumeration",
        _run(
            "base = type(re.A)._get_mixins_('', ())[1]\n"
            "return base._convert_('X', 'posix', lambda name: name == 'open')"
            ".open.value('/etc/passwd', 0)",
            "import re",
        ),
        "private", DENIED,
    ),
    # 335 and 336 are probes of the kernel's own; whoever else calls them is ended by it.
    Hostile(
        "every_system_call",
        _run(
            "import ctypes\nfrom hubbub.connectors.plugins import sandbox\n"
            "known = {**sandbox._CALLS, **sandbox._CALLS_WITHOUT_EXEC}\n"
            "column = list(sandbox._ARCHITECTURES).index(sandbox.platform.machine())\n"
            "allowed = {335, 336, *(numbers[column] for numbers in known.values())}\n"
            "libc, done = ctypes.CDLL(None, use_errno=True), []\n"
            "for number in range(600):\n"
            "    if number not in allowed:\n"
            "        if libc.syscall(number, -1, -1, -1) != -1 or ctypes.get_errno() != 1:\n"
            "            done.append(number)\n"
            "raise ValueError(f'done: {done}')"
        ),
        "import", "done: []",
    ),
    Hostile(
        "inherited_files",
        _run(
            "import select\npoll = select.poll()\n"
            "for fd in range(4096): poll.register(fd, 0)\n"
            "invalid = {fd for fd, event in poll.poll(0) if event & select.POLLNVAL}\n"
            "raise ValueError(f'open: {4096 - len(invalid)}')"
        ),
        "import", "open: 4",
    ),
    Hostile(
        "flood_the_hub",
        _run(_LINK + 'while True: say(f\'{{"type":"started","id":{number}}}\')'),
        "import", "it said what no worker says",
    ),
    Hostile(
        "answer_for_others",
        _run(
            _LINK + "for each in range(1, number + 100):\n"
            '    if each != number: say(f\'{{"type":"ended","id":{each},"status":0}}\')'
        ),
        "import", "it said what no worker says",
    ),
    Hostile(
        "status_beyond_bounds",
        _run(_LINK + 'say(f\'{{"type":"ended","id":{number},"status":{2**40}}}\')'),
        "import", "it said what cannot be read",
    ),
    Hostile("environment", _run("import os\nraise ValueError(len(os.environ))"), "import", "1"),
)  # fmt: skip
