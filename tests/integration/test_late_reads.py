"""Reads of settings and revocations that end late do not undo what was changed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.admin import Caller, admin_of
from harness.commands import Stage
from harness.running_hub import RunningHub, StartHub

pytestmark = pytest.mark.spec("SEC-03", "LIVE-11")
ACME = "/v1/admin/hubs/acme"
HISTORY = "/v1/hubs/acme/channels/news/messages"


class Held:
    """The next answer of the store to one kind of read waits until `let_go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, hub: RunningHub, read: str) -> None:
        store = hub.server.store
        real: Callable[..., Awaitable[Any]] = getattr(store, read)
        self._answered, self._open = asyncio.Event(), asyncio.Event()

        async def late(*arguments: Any, **named: Any) -> Any:
            monkeypatch.undo()  # only this one
            found = await real(*arguments, **named)
            self._answered.set()
            await self._open.wait()
            return found

        monkeypatch.setattr(store, read, late)

    async def begin(self, reading: Awaitable[None]) -> None:
        self._reading = asyncio.ensure_future(reading)
        await self._answered.wait()

    async def end(self) -> None:
        self._open.set()
        await self._reading


@pytest.mark.parametrize("hub_alone", [True, False])
async def test_a_revoked_token_stays_revoked(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, hub_alone: bool
) -> None:
    hub = await start_hub()
    ann = Caller(hub, hub.token("ann"))
    assert (await ann("GET", HISTORY)).status == 200
    held = Held(monkeypatch, hub, "read_revocations")
    await held.begin(hub.server.revocations.load("acme" if hub_alone else None))
    revoked = await admin_of(hub)("POST", f"{ACME}/revocations", {"kind": "user", "subject": "ann"})
    assert revoked.status < 300, revoked.text
    await held.end()
    assert (await ann("GET", HISTORY)).status == 401
    await hub.server.revocations.load()
    assert (await ann("GET", HISTORY)).status == 401


@pytest.mark.parametrize("read", ["read_settings", "read_topic_keys"])
@pytest.mark.parametrize("everything", [True, False])
async def test_access_that_was_taken_away_stays_away(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, read: str, everything: bool
) -> None:
    hub = await start_hub()
    ann = Caller(hub, hub.token("ann"))
    directory = hub.server.directory
    held = Held(monkeypatch, hub, read)
    await held.begin(directory.refresh() if everything else directory.reload("acme"))
    closed = {"public": False, "allowAnonymous": False}
    assert (await admin_of(hub)("PUT", f"{ACME}/rules/default", closed)).status < 300
    assert (await ann("GET", HISTORY)).status == 403
    await held.end()
    assert (await ann("GET", HISTORY)).status == 403
    await directory.refresh()
    assert (await ann("GET", HISTORY)).status == 403


async def test_a_hub_that_was_made_meanwhile_is_there(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub()
    held = Held(monkeypatch, hub, "read_topic_keys")
    await held.begin(hub.server.directory.refresh())
    assert (await admin_of(hub)("POST", "/v1/admin/hubs", {"hub": "shop"})).status < 300
    await held.end()
    assert "shop" in hub.server.directory


@pytest.mark.spec("CMD-02")
@pytest.mark.parametrize("everything", [True, False])
async def test_a_participant_who_was_removed_stays_outside(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    stage = await Stage.open(start_server)
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    assert (await ann.create("news", "ann", "bob"))[0] == 0
    assert (await bob.publish("news", 1))[0] == 0
    read = "list_channel_records" if everything else "read_channel_record"
    directory = stage.hub.server.directory
    held = Held(monkeypatch, stage.hub, read)
    await held.begin(directory.refresh() if everything else directory.reload("demo", "news"))
    assert (await ann.create("news", "ann"))[0] == 0
    await held.end()
    assert (await bob.publish("news", 2))[0] == 5
    assert (await ann.publish("news", 2))[0] == 0
    await stage.close()
