"""Attacks that need the hub killed, started in another way, or in several processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from attack.arena import RED, Arena, Findings, drill
from attack.clients import GONE, Line, Refused, Socket, ask, request
from attack.ground import Hub, Layout, ground, tenant
from benchmarks.postgres import PASSWORD, USER, local_postgres
from benchmarks.servers import Running

_TTL_SECONDS = 2.0


@contextlib.asynccontextmanager
async def _again(hub: Hub, process: Running) -> AsyncIterator[Running]:
    """The hub, killed and started over the same data."""
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with hub.serving() as anew:
        yield anew


@drill("15", "restore keys of a session whose hub is killed, before and after `restoreTtl`")
async def restore_after_kill(folder: Path, source: Path | None) -> Findings:
    found = Findings()
    layout = Layout(settings=(("session", {"restoreTtl": _TTL_SECONDS}),), source=source)
    async with ground(folder, layout) as (hub, process, arena):
        async with await Socket.connect(arena, arena.tokens["ann"]) as socket:
            key = (await socket.find("SessionRestore"))["payload"]["restoreKey"]
            await asyncio.sleep(0.5)  # snapshots are on disk
        killed = time.monotonic()
        async with _again(hub, process):
            await asyncio.sleep(max(0.0, killed + _TTL_SECONDS + 0.5 - time.monotonic()))
            said = await _restore(arena, key)
            found.answers[said] += 1
            found.expect(
                said == "restore_failed",
                f"a restore key still worked {time.monotonic() - killed:.1f} s after the hub was "
                f"killed, with restoreTtl {_TTL_SECONDS:g}: {said}",
            )
    return found


async def _restore(arena: Arena, key: str) -> str:
    async with await Socket.connect(arena) as socket:
        socket.say("SessionRestore", reqID=1, restoreKey=key)
        said = await socket.find("SessionRestored", "Error")
        error: dict[str, Any] = said["payload"].get("error") or said["payload"]
        return str(error.get("code", said["event"]))


@drill("16", "developer mode asked under names that a web page's author owns")
async def dns_rebinding(folder: Path, source: Path | None) -> Findings:
    found = Findings()
    layout = Layout(arguments=("--dev",), source=source)
    hub = Hub(folder, layout)
    with hub.serving():
        arena = Arena(hub.port, {}, "127.0.0.2", 0)
        good = await ask(arena, "GET", "/v1/hubs/demo/channels/a/messages")
        found.expect(good.status == 200, f"developer mode does not answer: {good.label}")
        for host in (
            "127.evil.com",
            "127.0.0.1.evil.com",
            "localhost.evil.com",
            "evil.localhost.com",
            "evil.com",
            "127.0.0.1@evil.com",
            "evil.com:8000",
            "[::1].evil.com",
        ):
            answer = await ask(arena, "GET", "/v1/hubs/demo/channels/a/messages", Host=host)
            found.answers[answer.label] += 1
            found.expect(answer.status >= 400, f"Host {host} was answered over HTTP")
            try:
                (await Socket.connect(arena, hub="demo", Host=host)).drop()
                found.expect(False, f"Host {host} was answered over WebSocket")
            except Refused as refused:
                found.answers[refused.answer.label] += 1
            except GONE:
                pass
    return found


@drill("21", "a WebSub ping that was answered 202, and then the hub is killed")
async def ping_after_kill(folder: Path, source: Path | None) -> Findings:
    """The topic is on a server that comes up only after the hub does."""
    found = Findings()
    async with ground(folder, Layout(source=source)) as (hub, process, arena):
        feed = arena.url("/fail/feed")
        callback = arena.url("/ok/reader")
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        path = f"/v1/hubs/{RED}/websub"
        subscribe = f"hub.mode=subscribe&hub.topic={feed}&hub.callback={callback}"
        answer = await ask(arena, "POST", path, arena.tokens[RED], subscribe.encode(), **form)
        found.expect(answer.status == 202, f"the subscription: {answer.label}")
        await _until(lambda: _seen(arena, "/ok/reader"), 1)
        await asyncio.sleep(0.5)
        ping = f"hub.mode=publish&hub.url={feed}"
        answer = await ask(arena, "POST", path, arena.tokens[RED], ping.encode(), **form)
        found.answers[answer.label] += 1
        found.expect(answer.status == 202, f"the ping: {answer.label}")
        await _until(lambda: _seen(arena, "/fail/feed"), 1)
        before = await _seen(arena, "/fail/feed")
        async with _again(hub, process):
            tried = await _until(lambda: _seen(arena, "/fail/feed"), before + 1, 10.0)
            found.expect(tried, "a ping that failed was not tried again after the hub was killed")
    return found


async def _seen(arena: Arena, path: str) -> int:
    async with await Line.open(arena, port=arena.scenery) as line:
        return int((await line.ask("GET", f"/seen?path={path}")).json["count"])


async def _until(count: Callable[[], Awaitable[int]], wanted: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if await count() >= wanted:
            return True
        await asyncio.sleep(0.05)
    return False


@drill("22", "quotas of a hub that is served by two worker processes")
async def quotas_of_workers(folder: Path, source: Path | None) -> Findings:
    found = Findings()
    quotas = {"sessions": 20, "messagesPerSecond": 50}
    with local_postgres() as postgres:
        database = {
            "host": "127.0.0.1",
            "port": postgres.port,
            "user": USER,
            "password": PASSWORD,
            "dbName": "postgres",
        }
        settings = (
            ("storage", {"postgres": database}),
            ("journal", {"enabled": False}),
            ("hubs", {RED: tenant(allowAnonymous=True, quotas=quotas)}),
        )
        layout = Layout(settings=settings, arguments=("--workers", "2"), source=source)
        hub = Hub(folder, layout)
        with hub.serving():
            arena = Arena(hub.port, {}, "127.0.0.2", 0)
            await _until_ready(arena)
            await _sessions(arena, quotas["sessions"], found)
            await _messages(arena, quotas["messagesPerSecond"], found)
    return found


async def _until_ready(arena: Arena) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(*GONE):
                if (await ask(arena, "GET", "/readyz")).status == 200:
                    return
            await asyncio.sleep(0.1)


async def _sessions(arena: Arena, quota: int, found: Findings) -> None:
    opened: list[Socket] = []
    for _ in range(4 * quota):
        try:
            socket = await Socket.connect(arena)
            said = await socket.find("SessionInfo", "Disconnect")
            if said["event"] == "SessionInfo":
                opened.append(socket)
            else:
                found.answers[str(said["payload"].get("code"))] += 1
        except Refused as refused:
            found.answers[refused.answer.label] += 1
        await asyncio.sleep(0.01)
    found.expect(len(opened) <= quota + 2, f"{len(opened)} sessions, with a quota of {quota}")
    for socket in opened:
        socket.drop()


async def _messages(arena: Arena, quota: int, found: Findings) -> None:
    """For two seconds, on 8 connections that the system spreads over the workers."""
    accepted = 0
    text = request("POST", f"/v1/hubs/{RED}/channels/a/messages", "", b"1")
    end = time.monotonic() + 2

    async def publish() -> None:
        nonlocal accepted
        async with await Line.open(arena) as line:
            while time.monotonic() < end:
                line.send(text)
                answer = await line.answer()
                accepted += answer.status == 200
                found.answers[answer.label] += 1

    await asyncio.gather(*(publish() for _ in range(8)))
    most = quota * 3 * 1.2  # two seconds, and what a second's burst allows
    found.expect(accepted <= most, f"{accepted} messages in 2 s, with a quota of {quota}/s")
