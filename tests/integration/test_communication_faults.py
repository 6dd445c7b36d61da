"""Messages to peers whose caller, adapter or store goes away half-way: each is delivered and has
its verdict, once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from harness.admin import HUB
from harness.communication import BOXES, COMM, FAULTS, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.requests import LogMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import StoreUnavailable
from hubbub.engine.communication import dispatcher, inputs
from hubbub.engine.communication.dispatcher import Dispatcher
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    HttpAnswer,
    Publish,
    adapter,
)
from hubbub.ports.bus import PublishReply
from hubbub.ports.storage.communication import LoggedMessage


def dispatcher_of(hub: CommHub) -> Dispatcher:
    (found,) = hub.hub.server.communication._hubs.values()
    return found.dispatcher


class SlowDisk:
    """Appends to the log wait until they are let go."""

    def __init__(self, hub: CommHub, monkeypatch: pytest.MonkeyPatch) -> None:
        committer = dispatcher_of(hub)._committer
        self._publish = committer._publish
        self.waiting: list[tuple[LogMessage, PublishReply]] = []
        self._is_slow = True
        monkeypatch.setattr(committer, "_publish", self._wait)

    def _wait(self, message: LogMessage, reply: PublishReply) -> None:
        if self._is_slow:
            self.waiting.append((message, reply))
        else:
            self._publish(message, reply)

    async def reached(self) -> None:
        async def is_reached() -> bool:
            return bool(self.waiting)

        await until(is_reached)

    def go_on(self) -> None:
        self._is_slow = False
        for message, reply in self.waiting:
            self._publish(message, reply)


@pytest.mark.spec("COMM-11")
async def test_a_message_goes_out_whose_sender_hung_up_while_it_was_stored(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "a"))
    disk = SlowDisk(hub, monkeypatch)
    sending = asyncio.create_task(hub.send("ann", id="m1"))
    await disk.reached()
    sending.cancel()
    await asyncio.wait([sending])
    for _ in range(2):  # the hub has heard of the end of the other connection by then
        await hub.service("GET", f"{HUB}/peers")
    disk.go_on()
    (got,) = await hub.got(1)
    assert got.message.id == "m1"


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_a_message_goes_out_and_is_settled_whose_adapter_was_removed_meanwhile(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), source=memory("test-pull", "in"))
    await hub.peer("ann", ("mail", "a"))
    message = PeerMessage(type="t", subtype="s", receiver="ann")
    BOXES["in"].inbox.append(message)
    disk = SlowDisk(hub, monkeypatch)
    assert (await hub.service("POST", f"{HUB}/adapters/source/pull")).status < 300
    await disk.reached()
    assert (await hub.service("DELETE", f"{HUB}/adapters/source")).status < 300
    disk.go_on()
    assert len(await hub.got(1)) == 1
    await until(lambda: is_closed("in"))
    assert (BOXES["in"].inbox, BOXES["in"].pulls) == ([], 1), "it was settled before the end"


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The adapter has none."""


@adapter(name="test-http-input", settings=NoSettings, direction="push")
class HttpSource:
    """Each request is a message to ann."""

    def __init__(self, settings: NoSettings, context: AdapterContext) -> None:
        self._publish: Publish | None = None

    async def start(self, publish: Publish) -> None:
        self._publish = publish

    async def stop(self) -> None:
        self._publish = None

    async def receive(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        assert self._publish is not None
        await self._publish(PeerMessage(id="m1", type="t", subtype="s", receiver="ann"))
        return HttpAnswer(200)


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_a_message_goes_out_whose_sender_hung_up_at_an_adapter_of_its_own_form(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = AdapterSettings("test-http-input")
    hub = await comm_hub(start_hub, mail=memory(), source=source)
    await hub.peer("ann", ("mail", "a"))
    disk = SlowDisk(hub, monkeypatch)
    sending = asyncio.create_task(hub.service("POST", f"{COMM}/input/source", {}))
    await disk.reached()
    sending.cancel()
    await asyncio.wait([sending])
    for _ in range(2):
        await hub.service("GET", f"{HUB}/peers")
    disk.go_on()
    (got,) = await hub.got(1)
    assert got.message.id == "m1"


async def is_closed(box: str) -> bool:
    return bool(BOXES[box].closed)


@pytest.mark.spec("COMM-11")
async def test_what_a_peer_follows_goes_out_where_the_driver_stopped_while_it_was_stored(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "a"))
    handed = dispatcher_of(hub)
    disk = SlowDisk(hub, monkeypatch)
    copy: dict[str, Any] = {"type": "t", "subtype": "s", "sender": "component:news:a"}
    message = PeerMessage(id="m1", receiver="ann", **copy)
    handing_over = asyncio.create_task(handed.deliver(message, 5.0))
    await disk.reached()
    handing_over.cancel()
    await asyncio.wait([handing_over])
    disk.go_on()
    assert (await handed.deliver(message, 5.0)).result == "met"


@pytest.mark.spec("COMM-05", "COMM-11")
@pytest.mark.parametrize("first", ["", "?transient=true"])
async def test_a_transient_message_takes_no_verdict_from_an_open_one_with_its_id(
    start_hub: StartHub, first: str
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    await hub.peer("desk", ("mail", "desk"))
    wanted = {"id": "m1", "sender": "desk", "deliveryPolicy": "ACKNOWLEDGED"}
    await hub.send("ann", how=first, **wanted)
    await until(lambda: is_tried(hub))
    for how in {first, "?transient=true"}:
        await hub.send("ann", how=how, **wanted)  # a repeat
    for how in ("", "?transient=true"):
        other = {"type": "ALARM", "subtype": "fire", "sender": "eve", "receiver": "desk"}
        reply = await hub.service("POST", f"{COMM}/messages{how}", {**other, "id": "m1"})
        assert (reply.status, reply.code) == (409, "conflict"), reply.text
    hub.box.gate.set()
    got = [(each.peer, each.message.subtype, each.message.refers_to) for each in await hub.got(2)]
    assert got == [("ann", "fire", ""), ("desk", "ACK", "m1")]


async def is_tried(hub: CommHub) -> bool:
    return bool(hub.box.attempts)


@pytest.mark.spec("COMM-11")
async def test_a_dead_letter_that_is_replayed_twice_at_once_goes_out_once(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "crash"))
    await hub.report(await hub.send("ann"))
    monkeypatch.delitem(FAULTS, "crash")  # from now on messages arrive
    replays = [hub.service("POST", f"{HUB}/dead-deliveries/replay", {}) for _ in range(3)]
    tried = [reply.json["tried"] for reply in await asyncio.gather(*replays)]
    assert sorted(tried) == [0, 0, 1]
    await until(lambda: is_dead(hub, 0))
    assert len(await hub.got(1)) == 1


async def is_dead(hub: CommHub, count: int) -> bool:
    found = await hub.service("GET", f"{HUB}/dead-deliveries")
    return len(found.json["items"]) == count


@pytest.mark.spec("COMM-05", "COMM-11")
async def test_a_verdict_after_a_restart_waits_for_a_store_that_is_away(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_server)
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(lambda: is_tried(hub))
    await hub.hub.close()
    hub = await comm_hub(start_server)
    await until(lambda: is_tried(hub))
    store, faults = hub.hub.server.store, [StoreUnavailable("away"), StoreUnavailable("away")]
    read_logged = store.read_logged

    async def read(*arguments: Any) -> list[LoggedMessage]:
        if faults:
            raise faults.pop()
        return await read_logged(*arguments)

    monkeypatch.setattr(store, "read_logged", read)
    monkeypatch.setattr(dispatcher, "AGAIN_SECONDS", 0.01)
    hub.box.gate.set()
    assert await hub.report(sent) == ("ACK", "")
    assert faults == []


@pytest.mark.spec("COMM-02", "COMM-05")
async def test_an_error_of_an_adapter_that_is_no_text_is_reported_and_holds_nothing_up(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), source=memory("test-pull", "in"))
    monkeypatch.setitem(FAULTS, "odd", AdapterFailed("no \udcff\x00 mailbox"))
    await hub.peer("ann", ("mail", "odd"))
    await hub.peer("bob", ("mail", "odd"), ("mail", "b"), policy="AT_LEAST_ONE")
    wanted = {"deliveryPolicy": "ACKNOWLEDGED"}
    sent = [await hub.send(peer, **wanted) for peer in ("ann", "bob", "ann")]
    assert await hub.report(sent[0]) == ("COMERROR", "no    mailbox")
    assert await hub.report(sent[1]) == ("ACK", "")
    assert await hub.report(sent[2]) == ("COMERROR", "no    mailbox")
    BOXES["in"].inbox.append(ValueError("no \udcff source"))
    assert (await hub.service("POST", f"{HUB}/adapters/source/pull")).status < 300

    async def shown() -> bool:
        reply = await hub.service("GET", f"{HUB}/adapter-status")
        assert reply.status == 200, reply.text
        return "no   source" in reply.text

    await until(shown)
    await until(lambda: is_dead(hub, 3))


@pytest.mark.spec("COMM-02")
async def test_an_adapter_that_is_to_go_after_its_first_message_goes_when_the_store_is_back(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = memory("test-pull", "in", delete_if_successful=True)
    hub = await comm_hub(start_hub, mail=memory(), once=once)
    await hub.peer("ann", ("mail", "a"))
    directory, faults = hub.hub.server.node.directory, [StoreUnavailable("away")]
    delete = directory.delete

    async def delete_later(*arguments: Any) -> bool:
        if faults:
            raise faults.pop()
        return await delete(*arguments)

    monkeypatch.setattr(directory, "delete", delete_later)
    monkeypatch.setattr(inputs, "AGAIN_SECONDS", 0.01)
    for text in ("one", "two"):
        message = PeerMessage(id=text, type="t", subtype="s", receiver="ann")
        BOXES["in"].inbox.append(message)
    assert (await hub.service("POST", f"{HUB}/adapters/once/pull")).status < 300
    await until(lambda: is_closed("in"))
    assert (await hub.service("GET", f"{HUB}/adapters/once")).status == 404
    assert [each.message.id for each in await hub.got(1)] == ["one"]
