"""Runs the examples of one page of the documentation against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol
from yarl import URL

from benchmarks.servers import free_port
from harness.documentation import (
    ROOT,
    Block,
    Mismatch,
    Values,
    agrees,
    blocks_of,
    expect_json,
    expect_text,
    fill,
    fill_json,
    text_agrees,
)
from harness.nats import open_nats_server
from harness.running_hub import RunningHub, Socket
from harness.zeromq_examples import run_bytes, run_frames
from hubbub.server.settings import Settings, developer_settings, load
from hubbub.server.settings.keys import CATEGORIES
from hubbub.server.wiring import Server

PATIENCE_SECONDS = 30
DEFAULT_SOCKET = "/v1/hubs/demo/socket"
# Programs of others, or steps that the test itself has done already.
NOT_RUN = frozenset(("git", "make", "sudo", "nginx", "openssl", "docker", "export", "cd"))


def is_configuration(block: Block) -> bool:
    """A hub's own configuration, as opposed to that of another program."""
    keys = {line.partition(":")[0] for line in block.text.splitlines() if line[:1].isalpha()}
    return block.language == "yaml" and bool(keys) and keys <= {*CATEGORIES, "hubs"}


@asynccontextmanager
async def running_examples(page: Path, folder: Path) -> AsyncIterator[Examples]:
    """A hub in developer mode with the page's own configuration, ready to run its examples."""
    blocks = blocks_of(page)
    ports = {printed: free_port() for printed in ("9000", "9001", "4222")}
    for command in _preparations(blocks):
        await _run_to_end(command, folder)
    async with AsyncExitStack() as beside:
        if any("localhost:4222" in block.text for block in blocks if is_configuration(block)):
            await beside.enter_async_context(open_nats_server(folder, ports["4222"]))
        server = Server(_settings(blocks, folder, ports))
        await server.start()
        hub = RunningHub(server)
        ports["8000"] = ports["8443"] = server.port
        ports["8001"] = urlsplit(server.zeromq).port or 0
        try:
            async with AsyncExitStack() as opened:
                yield Examples(blocks, hub, folder, ports, opened)
        finally:
            await hub.close()


def _settings(blocks: list[Block], folder: Path, ports: dict[str, int]) -> Settings:
    file = folder / "hubbub.yaml"
    configuration = next((block.text for block in blocks if is_configuration(block)), "{}")
    for printed, port in ports.items():
        configuration = configuration.replace(f"localhost:{printed}", f"localhost:{port}")
    file.write_text(configuration)
    overrides: dict[str, object] = {
        "listener.port": 0,
        "listener.host": "127.0.0.1",
        "storage.path": str(folder / "data"),
        "zeromq.endpoint": "tcp://127.0.0.1:*",
    }
    if "hcommands:" in configuration:
        overrides["hcommands.path"] = str(folder)
        overrides["hcommands.workers"] = 1
    if "cert.pem" in configuration:
        overrides["listener.tls.certificate"] = str(folder / "cert.pem")
        overrides["listener.tls.key"] = str(folder / "key.pem")
    return developer_settings(load(file, {}, overrides))


def _preparations(blocks: list[Block]) -> list[list[str]]:
    """Creates what the hub needs before it starts: certificates."""
    lines = [line for each in blocks if each.language == "sh" for line in _lines(each.text)]
    return [shlex.split(line) for line in lines if line.startswith("openssl ")]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


class Command:
    """A program that goes on running, and the lines that it prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[str] = []

    async def expect_lines(self, expected: str, values: Values, where: str, seconds: float) -> None:
        """Each of these lines comes within so many seconds, in this order; others may stand between
        them."""
        assert self.process.stdout is not None
        for wanted in expected.splitlines():
            found = False
            while not found:
                try:
                    line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
                except TimeoutError:
                    line = b""
                if not line:
                    raise Mismatch(f"{where}: {wanted!r} did not come, only {self.seen}")
                self.seen.append(line.decode().rstrip("\n"))
                found = text_agrees(wanted, self.seen[-1], values)


class Examples:
    """The state of a page: what its names stand for, and what goes on."""

    def __init__(
        self,
        blocks: list[Block],
        hub: RunningHub,
        folder: Path,
        ports: dict[str, int],
        opened: AsyncExitStack,
    ) -> None:
        self._blocks = blocks
        self._hub = hub
        self._folder = folder
        self._ports = ports
        self._opened = opened
        self._values: Values = {}
        self._sockets: dict[str, Socket] = {}
        self._streams: dict[str, aiohttp.ClientResponse] = {}
        self._commands: dict[str, Command] = {}
        self._output = ""
        self._patience_seconds: float = PATIENCE_SECONDS
        # In place of the default that the commands of the page rely on.
        self._environment = {**os.environ, "HUBBUB_URL": f"ws://{hub.address}"}

    @property
    def address(self) -> str:
        return f"http://{self._hub.address}"

    async def run(self, patience_seconds: float = PATIENCE_SECONDS) -> int:
        """Run them all; answers how many there were. `patience_seconds` is for each."""
        self._patience_seconds = patience_seconds
        ran = 0
        before = ""
        for block in self._blocks:
            try:
                done = await asyncio.wait_for(self._run(block, before), patience_seconds)
            except TimeoutError:
                raise Mismatch(f"{block.where}: what the example says did not happen") from None
            ran += done
            before = block.language
        return ran

    async def _run(self, block: Block, before: str) -> bool:
        if block.language == "http":
            await self._exchange(block)
        elif block.language == "socket":
            await self._talk(block)
        elif block.language == "sse":
            await self._listen(self._streams[block.name], block.text, block.where)
        elif block.language in ("zeromq", "zmtp"):
            await self._speak_zeromq(block)
        elif block.language == "sh":
            await self._run_commands(block)
        elif block.language == "python" and block.name:
            await self._write(block)
        elif block.language == "python":
            self._output = await _run_to_end(
                [sys.executable, "-c", self._local(block.text)], self._folder, self._environment
            )
        elif block.language == "json" and before == "sh":
            expect_json(block.text, json.loads(self._output), self._values, block.where)
        elif block.language == "text" and block.name:
            command = self._commands[block.name]
            seconds = self._patience_seconds * 0.8
            await command.expect_lines(block.text, self._values, block.where, seconds)
        elif block.language == "text" and before in ("sh", "python"):
            expect_text(block.text, self._output, self._values, block.where)
        else:
            return False
        return True

    async def _write(self, block: Block) -> None:
        """A file that commands use. One of the project is there already, and must say the same."""
        if "/" in block.name:
            expect_text(block.text, (ROOT / block.name).read_text(), {}, block.where)
        else:
            (self._folder / block.name).write_text(self._local(block.text))
            if self._hub.server.plugins is not None:  # sooner than developer mode looks by itself
                await self._hub.server.plugins.reload_changed()

    def _local(self, text: str) -> str:
        """The text with the ports and paths of this test."""
        for printed, port in self._ports.items():
            text = text.replace(f"localhost:{printed}", f"localhost:{port}")
            text = re.sub(rf"(\.py |port=|\"port\":\")({printed})\b", rf"\g<1>{port}", text)
        return fill(text, self._values)

    # -- HTTP -----------------------------------------------------------------------------------

    async def _exchange(self, block: Block) -> None:
        request, _, response = block.text.partition("\nHTTP/1.1 ")
        head, _, body = request.strip().partition("\n\n")
        method, path = head.splitlines()[0].split()[:2]
        answer = await self._hub.http.request(
            method,
            URL(f"http://{self._hub.address}{fill(path, self._values)}", encoded=True),
            headers=dict(self._header(line) for line in head.splitlines()[1:]),
            data=fill(body.strip(), self._values).encode() or None,
            skip_auto_headers=("Content-Type",),
        )
        self._opened.callback(answer.close)
        head, _, body = response.partition("\n\n")
        self._check_head(answer, head, block.where)
        if answer.content_type == "text/event-stream":
            self._streams[block.name] = answer
            await self._listen(answer, body, block.where)
        elif body.strip().startswith("{"):
            expect_json(body, await answer.json(content_type=None), self._values, block.where)
        else:
            expect_text(body, await answer.text(), self._values, block.where)

    def _header(self, line: str) -> tuple[str, str]:
        name, _, value = line.partition(":")
        return name.strip(), fill(value.strip(), self._values)

    def _check_head(self, answer: aiohttp.ClientResponse, head: str, where: str) -> None:
        status, *lines = head.splitlines()
        expect_text(status, f"{answer.status} {answer.reason}", self._values, where)
        for line in lines:
            name, value = self._header(line)
            expect_text(value, answer.headers.get(name, "(missing)"), self._values, where)

    async def _listen(self, stream: aiohttp.ClientResponse, text: str, where: str) -> None:
        """Compare the next events of a stream with those of the example."""
        for expected in text.strip().split("\n\n"):
            for line in expected.splitlines():
                actual = (await stream.content.readline()).decode().rstrip("\n")
                if line.startswith("data: {") and actual.startswith("data: "):
                    expect_json(line[6:], json.loads(actual[6:]), self._values, where)
                else:
                    expect_text(line, actual, self._values, where)
            expect_text("", (await stream.content.readline()).decode(), self._values, where)

    # -- WebSocket ------------------------------------------------------------------------------

    async def _talk(self, block: Block) -> None:
        lines = _joined(block.text)
        known = self._sockets.get(block.name) if block.name else None
        connecting = lines[0].startswith("connect ")
        if connecting or known is None:
            path = lines.pop(0).removeprefix("connect ").strip() if connecting else DEFAULT_SOCKET
            headers = {}
            while lines and lines[0][0] not in "<>":
                name, value = self._header(lines.pop(0))
                headers[name] = value
            known = await self._connect(path, headers)
            if not (lines and "SessionInfo" in lines[0]) and not connecting:
                await known.expect("SessionInfo")
            self._sockets[block.name] = known
        for line in lines:
            await self._say_or_hear(known, line, block.where)

    async def _connect(self, path: str, headers: dict[str, str]) -> Socket:
        offered = headers.pop("Sec-WebSocket-Protocol", "")
        connection: ClientConnection = await connect(
            f"ws://{self._hub.address}{fill(path, self._values)}",
            subprotocols=[Subprotocol(name.strip()) for name in offered.split(",")]
            if offered
            else None,
            additional_headers=headers,
            compression=None,
            proxy=None,
        )
        self._opened.push_async_callback(connection.close)
        return Socket(connection)

    async def _say_or_hear(self, known: Socket, line: str, where: str) -> None:
        text = line[1:].strip()
        if line.startswith(">") and text == "close":
            await known.connection.close()
        elif line.startswith(">"):
            envelopes = [fill_json(each, self._values) for each in text.split("\n&")]
            await known.connection.send("\n".join(envelopes))
        elif text.startswith("close "):
            code, reason = await known.closed()
            expect_text(text, f"close {code} {reason}", self._values, where)
        else:
            envelope = await known.next()
            # The counter comes when it likes, a few times a second.
            while envelope["event"] == "Occupancy" and not agrees(text, envelope, self._values):
                envelope = await known.next()
            expect_json(text, envelope, self._values, where)

    # -- ZeroMQ ---------------------------------------------------------------------------------

    async def _speak_zeromq(self, block: Block) -> None:
        endpoint = self._hub.server.zeromq
        assert endpoint is not None
        if block.language == "zmtp":
            await run_bytes(endpoint, block.text, block.where)
        else:
            dealer = block.name == "dealer"
            await run_frames(endpoint, block.text, dealer, self._values, block.where)

    # -- commands -------------------------------------------------------------------------------

    async def _run_commands(self, block: Block) -> None:
        for line in _lines(block.text):
            words = self._words(line)
            if not words or words[0] in NOT_RUN or words[1:2] == ["serve"]:
                continue
            if block.name:
                await self._start(block.name, words)
            else:
                self._output = await _run_to_end(words, self._folder, self._environment)

    def _words(self, line: str) -> list[str]:
        words = shlex.split(self._local(line), comments=True)
        if words and words[0] in (".venv/bin/hubbub", "hubbub"):
            words[0] = str(Path(sys.executable).parent / "hubbub")
        elif words and words[0] == "python3":
            words = [sys.executable, *words[1:]]
            words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
        return words

    async def _start(self, name: str, words: list[str]) -> None:
        """Start a program that goes on; one that subscribes, or answers, is awaited until it is
        there."""
        before, sessions = self._subscriptions(), self._hub.server.node.session_count
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._opened.push_async_callback(_end, process)
        self._commands[name] = Command(process)
        subscribes, answers = "-N" in words or "subscribe" in words, "answer" in words
        while (subscribes and self._subscriptions() == before) or (
            answers and self._hub.server.node.session_count == sessions
        ):
            if process.returncode is not None:
                raise Mismatch(f"{shlex.join(words)} ended with {process.returncode}")
            await asyncio.sleep(0.01)

    def _subscriptions(self) -> int:
        return sum(each.subscriptions for each in self._hub.server.node.counters.values())


async def _run_to_end(
    words: list[str], folder: Path, environment: dict[str, str] | None = None
) -> str:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, problems = await process.communicate()
    if process.returncode:
        raise Mismatch(f"{shlex.join(words)} ended with {process.returncode}: {problems!r}")
    return output.decode()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask first: it may have started others."""
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _joined(text: str) -> list[str]:
    """Lines of a dialogue. What is indented goes on from the line before, and what begins with `&`
    is another envelope of the same frame."""
    lines: list[str] = []
    for line in text.splitlines():
        if line[:1] in (" ", "&") and lines:
            lines[-1] += "\n" + line
        elif line.strip():
            lines.append(line)
    return lines
