"""Plugins in worker processes: what they can do, what they cannot, and what the hub notices."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.hostile_plugins import HOSTILE, Hostile
from hubbub.connectors.plugins import pool, process
from hubbub.connectors.plugins.pool import PluginLimits, PluginWorkers
from hubbub.connectors.plugins.protocol import CallReply
from hubbub.ports.plugins import CallContext, PluginCall, PluginReply

pytestmark = [pytest.mark.spec("CMD-04"), pytest.mark.asyncio]


class Host:
    """Answers what plugins ask by echoing it, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        self.asked.append((operation, json.loads(arguments)))
        if operation == "channel":
            return PluginReply(9, text="there is no such channel")
        return PluginReply(value=arguments)


class HoldingHost(Host):
    """Keeps who publishes waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for, self.go_on = asyncio.Event(), asyncio.Event()

    async def ask(self, operation: str, arguments: bytes) -> PluginReply:
        if operation == "publish":
            self.asked_for.set()
            await self.go_on.wait()
        return await super().ask(operation, arguments)


class Workers(PluginWorkers):
    """With a short way to call."""

    async def ask(
        self,
        name: str,
        document: Any = None,
        hub: str = "acme",
        timeout_ms: int | None = None,
        host: Host | None = None,
    ) -> tuple[int, Any]:
        shape = self.find(name)
        assert shape is not None, self.refused
        context = CallContext(hub, f"ann@{hub}", "s1")
        call = PluginCall(
            name, "run", json.dumps(document).encode(), context, timeout_ms or shape.timeout_ms
        )
        reply = await self.call(hub, call, host or Host())
        return reply.status, reply.text or json.loads(reply.value)

    @property
    def processes(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]


@asynccontextmanager
async def running(
    folder: Path, sources: dict[str, str], *, analyse: bool = True, workers: int = 2
) -> AsyncIterator[Workers]:
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    limits = PluginLimits(workers=workers, analyse=analyse)
    plugins = Workers(folder, limits)
    await plugins.start()
    try:
        yield plugins
    finally:
        await plugins.stop()


ECHO = "async def run(command, context):\n    return command\n"
CONTEXT = """
async def run(command, context):
    try:
        await context.channel("news")
    except CommandRefused as refused:
        refusal = [refused.status, refused.text]
    return [context.hub, context.sender, context.session, refusal,
            await context.publish({"chid": "#a"}, as_user="bob@acme"),
            await context.command("hEcho", 1), await context.find("hChannels", {}, limit=5),
            await context.save("notes", {}), await context.filter_messages([{}])]
"""


async def test_a_command_gets_its_document_and_answers(tmp_path: Path) -> None:
    async with running(tmp_path, {"Shout": ECHO}) as plugins:
        document = {"a": [1, None, "ü", 2.5, 10**30]}
        assert await plugins.ask("sHOUT", document) == (0, document)


async def test_the_context_asks_the_hub(tmp_path: Path) -> None:
    async with running(tmp_path, {"curious": CONTEXT}) as plugins:
        status, result = await plugins.ask("curious")
        assert status == 0
        assert result[:4] == ["acme", "ann@acme", "s1", [9, "there is no such channel"]]
        assert result[4] == [{"chid": "#a"}, "bob@acme"]
        assert result[5:] == [
            ["hEcho", 1, None], ["hChannels", {}, None, 5], ["notes", {}], [[{}]],
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "result"),
    [
        ("return 5, 'no'", 5, "no"),
        ("return 0, {'a': 1}", 0, {"a": 1}),
        ("return [5, 'no']", 0, [5, "no"]),
        ("return True, 1", 0, [True, 1]),
        ("raise ValueError('why')", 1, "ValueError: why (it.py, line 2)"),
        ("raise CommandRefused(6, 'a is missing')", 6, "a is missing"),
        ("return await context.channel('x')", 9, "there is no such channel"),
        ("return -1, 'x'", 1, "ValueError: the status -1 is not one"),
        (
            "a = []\n    for _ in range(970): a = [a]\n    return a",
            1,
            "ValueError: the value has more than 272 levels; make it flatter",
        ),
        (
            "a = []\n    for _ in range(970): a = [a]\n    await context.save('deep', a)",
            1,
            "ValueError: the value has more than 272 levels; make it flatter (it.py, line 4)",
        ),
    ],
)
async def test_how_a_command_says_its_status(
    tmp_path: Path, body: str, status: int, result: object
) -> None:
    code = f"async def run(command, context):\n    {body}\n"
    async with running(tmp_path, {"it": code}, workers=1) as plugins:
        assert await plugins.ask("it") == (status, result)


MODULES = """
import asyncio, collections, collections.abc, datetime, decimal, functools, itertools, json, math
import re, statistics

async def run(command, context):
    await asyncio.sleep(0)
    return [
        json.loads(json.dumps({"a": [1]})),
        re.sub("b+", "c", "abba", flags=re.IGNORECASE),
        math.floor(math.tau),
        datetime.datetime.strptime("2012-07-06", "%Y-%m-%d").strftime("%d.%m.%y"),
        collections.Counter("aab").most_common(1), collections.namedtuple("P", "x y")(1, 2).y,
        isinstance([], collections.abc.Sequence),
        list(itertools.islice(itertools.count(), 2)),
        functools.reduce(max, [1, 3, 2]),
        statistics.median([1, 2, 9]),
        str(decimal.Decimal("0.1") + decimal.Decimal("0.2")),
    ]
"""


async def test_every_module_that_may_be_imported_works_in_a_process_without_files(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, {"modules": MODULES}, workers=1) as plugins:
        assert await plugins.ask("modules") == (
            0,
            [
                {"a": [1]}, "aca", 6, "06.07.12", [["a", 2]], 2, True, [0, 1], 3, 2, "0.3",
            ],
        )  # fmt: skip


async def test_what_is_nested_too_deeply_reaches_no_plugin(tmp_path: Path) -> None:
    async with running(tmp_path, {"echo": ECHO}, workers=1) as plugins:
        document: list[Any] = []
        for _ in range(280):
            document = [document]
        status, text = await plugins.ask("echo", document)
        assert (status, text) == (7, "more than 272 levels; plugins take flatter values")


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
async def test_hostile_code_is_refused_by_the_analysis_or_held_by_limits(
    tmp_path: Path, hostile: Hostile
) -> None:
    path = tmp_path / f"{hostile.name}.py"
    async with running(tmp_path, {"echo": ECHO, hostile.name: hostile.code}, workers=1) as plugins:
        if hostile.refused_by is not None:
            assert hostile.refused_by in {found.rule for found in plugins.refused[str(path)]}
            assert plugins.find(hostile.name) is None
        else:
            status, text = await plugins.ask(hostile.name)
            assert status == hostile.status
            assert hostile.text in str(text)
        assert await plugins.ask("echo", 1) == (0, 1)


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
async def test_limits_of_the_system_hold_without_the_analysis(
    tmp_path: Path, hostile: Hostile
) -> None:
    async with running(
        tmp_path, {"echo": ECHO, hostile.name: hostile.code}, workers=1, analyse=False
    ) as plugins:
        status, text = await plugins.ask(hostile.name)
        assert status == hostile.status or hostile.name == "poison_builtins"
        assert hostile.text in str(text)
        if hostile.name == "poison_builtins":
            await plugins.ask("echo", 1, timeout_ms=300)  # of the same hub: it may suffer
        assert await plugins.ask("echo", 1, hub="other") == (0, 1)


async def test_a_worker_that_hangs_is_replaced_and_what_waited_behind_it_is_run(
    tmp_path: Path,
) -> None:
    loop = "timeout = 200\nasync def run(command, context):\n    while True: pass\n"
    async with running(tmp_path, {"loop": loop, "echo": ECHO}, workers=1) as plugins:
        (before,) = plugins.processes
        hung, behind = await asyncio.gather(plugins.ask("loop"), plugins.ask("echo", "still"))
        assert hung == (10, "loop did not end within 200 ms")
        assert behind == (0, "still")
        assert plugins.processes != [before]
        assert plugins.kills == 1


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ("await asyncio.sleep(1e300)", (10, "odd did not end within 200 ms")),
        ("await asyncio.sleep(float('nan'))", (0, None)),
        ("raise CommandRefused(5, chr(0xd800))", (5, "?")),
        ("raise ValueError(chr(0xd800))", (1, "ValueError: ? (odd.py, line 4)")),
        ("raise CommandRefused(2**31, 'no')", (1, "CommandRefused: no (odd.py, line 4)")),
        (
            "try:\n        await context.publish('held')\n"
            "    finally:\n        await context.save('visits', {})",
            (10, "odd did not end within 200 ms"),
        ),
        (
            "while True:\n        try: await context.channel('none')\n"
            "        except CommandRefused: pass",
            (1, "odd asked its context more than 3 times"),
        ),
    ],
)
async def test_a_call_that_ends_oddly_leaves_others_in_its_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, answer: tuple[int, Any]
) -> None:
    monkeypatch.setattr(pool, "ASKS_OF_A_CALL", 3)
    monkeypatch.setattr(pool, "GRACE_SECONDS", 30)
    timeout_ms = 200 if answer[0] == 10 else 30_000
    odd = f"import asyncio\ntimeout = {timeout_ms}\nasync def run(command, context):\n    {body}\n"
    waits = "async def run(command, context):\n    return await context.publish('held')\n"
    async with running(tmp_path, {"odd": odd, "waits": waits}, workers=1) as plugins:
        (before,) = plugins.processes
        host = HoldingHost()
        waiting = asyncio.create_task(plugins.ask("waits", timeout_ms=30_000, host=host))
        await host.asked_for.wait()
        assert await plugins.ask("odd", host=host) == answer
        host.go_on.set()
        assert await waiting == (0, ["held", None])
        assert (plugins.kills, plugins.processes) == (0, [before])


async def test_a_process_that_reads_nothing_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_UNREAD_BYTES", 4 * 1024 * 1024)
    deaf = "async def run(command, context):\n    await context.publish(1)\n    while True: pass\n"
    async with running(tmp_path, {"deaf": deaf}, workers=1) as plugins:
        host = HoldingHost()
        asking = asyncio.create_task(plugins.ask("deaf", timeout_ms=30_000, host=host))
        await host.asked_for.wait()
        (worker,) = plugins._workers
        large = CallReply(1, 0, msgspec.Raw(b'"' + b"x" * 1_000_000 + b'"'))
        for _ in range(10):
            worker.process.send(large)
        status, text = await asking
        assert (status, text.endswith("it left 4194304 bytes unread")) == (1, True)


@pytest.mark.parametrize("name", ["größe = 5", 'SIGN = "\\N{BULLET}"'])
async def test_names_of_every_language_are_read(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, {"it": f"{name}\n{ECHO}"}, workers=1) as plugins:
        assert await plugins.ask("it", 1) == (0, 1)


async def test_calls_that_wait_let_others_run_in_the_same_process(tmp_path: Path) -> None:
    slow = (
        "import asyncio\nasync def run(command, context):\n"
        "    await asyncio.sleep(command)\n    return command\n"
    )
    async with running(tmp_path, {"slow": slow, "echo": ECHO}, workers=1) as plugins:
        waiting = [asyncio.create_task(plugins.ask("slow", 60)) for _ in range(5)]
        await asyncio.sleep(0)
        assert await plugins.ask("echo", 1) == (0, 1)
        assert await plugins.ask("slow", 0.01) == (0, 0.01)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert await plugins.ask("echo", 2) == (0, 2)
        assert plugins.kills == 0


async def test_a_busy_hub_leaves_workers_to_others(tmp_path: Path) -> None:
    loop = "timeout = 2000\nasync def run(command, context):\n    while True: pass\n"
    async with running(tmp_path, {"loop": loop, "echo": ECHO}, workers=2) as plugins:
        flood = [asyncio.create_task(plugins.ask("loop", hub="greedy")) for _ in range(20)]
        await asyncio.sleep(0)
        assert await plugins.ask("echo", 1, hub="modest", timeout_ms=1500) == (0, 1)
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_a_hub_has_a_bounded_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "WAITING_CALLS", 3)
    loop = "async def run(command, context):\n    while True: pass\n"
    async with running(tmp_path, {"loop": loop}, workers=1) as plugins:
        tasks = [asyncio.create_task(plugins.ask("loop")) for _ in range(10)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        status, text = done.pop().result()
        assert status == 9
        assert "plugin commands of acme wait already" in text
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_process_serves_one_hub_only(tmp_path: Path) -> None:
    remember = (
        "SEEN = []\nasync def run(command, context):\n"
        "    SEEN.append(context.hub)\n    return SEEN\n"
    )
    async with running(tmp_path, {"remember": remember}, workers=1) as plugins:
        assert await plugins.ask("remember", hub="a") == (0, ["a"])
        assert await plugins.ask("remember", hub="b") == (0, ["b"])
        assert await plugins.ask("remember", hub="a") == (0, ["a"])


async def test_a_refused_file_is_logged_and_the_others_are_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.connectors.plugins.process.LOAD_SECONDS", 1.0)
    sources = {
        "good": ECHO, "bad": "import os\n" + ECHO, "HECHO": ECHO, "9lives": ECHO, "_private": "x",
        "hangs": "import math\nA = math.factorial(3_000_000)\n" + ECHO,
        "breaks": "A = (1).b\n" + ECHO,
    }  # fmt: skip
    async with running(tmp_path, sources, workers=1) as plugins:
        assert list(plugins.names()) == ["good"]
        rules = {Path(path).stem: found[0].rule for path, found in plugins.refused.items()}
        assert rules == {
            "bad": "import", "HECHO": "name", "9lives": "name", "hangs": "load", "breaks": "load",
        }  # fmt: skip
        assert "bad.py is refused: line 1: import: os" in caplog.text
        assert await plugins.ask("good", 1) == (0, 1)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            "sandbox.platform.machine = lambda: 'vax'",
            "the calls of the kernel on vax are not known",
        ),
        ("sandbox._PR_SET_SECCOMP = 9999", "the system refuses seccomp (Invalid argument)"),
        ("sandbox._PR_SET_NO_NEW_PRIVS = 9999", "the system refuses no_new_privs"),
        (
            "sandbox._prctl = lambda *a: None",
            "seccomp is accepted and does not keep from files",
        ),
        (
            "sandbox._CALLS |= {'open': (2, None), 'openat': (257, 56)}",
            "seccomp is accepted and does not keep from files",
        ),
        (
            "sandbox._CALLS |= {'socket': (41, 198)}",
            "seccomp is accepted and does not keep from sockets",
        ),
        (
            "sandbox.resource.RLIMIT_AS = 9999",
            "memory and processor time cannot be limited (invalid resource specified)",
        ),
        ("sandbox.Path = lambda p: open('/none')", "memory and processor time cannot be limited"),
    ],
)
async def test_without_limits_of_the_system_nothing_is_loaded_and_the_hub_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
    text: str,
) -> None:
    monkeypatch.setattr(
        process,
        "_BOOT",
        "import sys; sys.path += sys.argv[2:]; from hubbub.connectors.plugins import sandbox;"
        f"{fault}; from hubbub.connectors.plugins.worker import main; main()",
    )
    async with running(tmp_path, {"good": ECHO}) as plugins:
        assert plugins.find("good") is None
        call = PluginCall("good", "run", b"1", CallContext("acme"), 1000)
        reply = await plugins.call("acme", call, Host())
        assert reply.status == 9
        assert reply.text == "the plugins cannot be run now; the hub's log says why"
        assert text in plugins.unavailable
        assert text in caplog.text


async def test_a_folder_that_is_not_there_is_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = Workers(tmp_path / "none", PluginLimits())
    await plugins.start()
    assert "none cannot be read (No such file or directory)" in plugins.unavailable
    assert plugins.unavailable in caplog.text
    await plugins.stop()


async def test_a_changed_file_is_loaded_again(tmp_path: Path) -> None:
    async with running(tmp_path, {"greet": ECHO}, workers=1) as plugins:
        assert await plugins.ask("greet", 1) == (0, 1)
        (tmp_path / "greet.py").write_text("async def run(command, context):\n    return 'new'\n")
        (tmp_path / "more.py").write_text(ECHO)
        await plugins.reload_changed()
        assert await plugins.ask("greet", 1) == (0, "new")
        assert await plugins.ask("more", 2) == (0, 2)


async def test_the_hub_ends_its_workers(tmp_path: Path) -> None:
    async with running(tmp_path, {"echo": ECHO}, workers=1) as plugins:
        await plugins.ask("echo")
        (process,) = plugins.processes
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
