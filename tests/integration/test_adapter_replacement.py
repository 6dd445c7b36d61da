"""An adapter that is put again with other settings: tried out first, and nothing that waits is
lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from benchmarks.servers import free_port
from harness.admin import HUB, Caller
from harness.communication import BOXES, CommHub, comm_hub, memory, until
from harness.mail import mail_server
from harness.receivers import Receiver
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.permissions import Level
from hubbub.ports.adapters import AdapterContext, Delivery, Publish, adapter

pytestmark = pytest.mark.spec("COMM-02", "COMM-11")


class PortSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: int
    type: str = "NOTE"


@adapter(name="test-port", settings=PortSettings, direction="push")
class Port:
    """Each line that comes in at a port is a message."""

    def __init__(self, settings: PortSettings, context: AdapterContext) -> None:
        self._settings = settings

    async def start(self, publish: Publish) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            content = (await reader.readline()).decode().strip()
            message = PeerMessage(type=self._settings.type, subtype="LINE", content=content)
            writer.write((await publish(message)).encode())
            writer.close()

        self._server = await asyncio.start_server(serve, "127.0.0.1", self._settings.port)

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()


class LockSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str


@adapter(name="test-lock", settings=LockSettings, secrets=frozenset({"key"}))
class Lock:
    def __init__(self, settings: LockSettings, context: AdapterContext) -> None:
        if settings.key != "right":
            raise ValueError("the key does not fit")

    async def push(self, delivery: Delivery) -> None:
        pass

    async def close(self) -> None:
        pass


async def put(hub: CommHub, name: str, kind: str = "test-memory", **more: Any) -> Any:
    return await hub.service("PUT", f"{HUB}/adapters/{name}", {"kind": kind, **more})


async def status(hub: CommHub, name: str) -> dict[str, Any]:
    found = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    (one,) = [each for each in found if each["name"] == name]
    return dict(one)


def so(condition: Callable[[], object]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return bool(condition())

    return ask


async def test_settings_that_cannot_work_are_refused_and_the_queue_goes_on_with_the_old_ones(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    sent = [await hub.send("ann", deliveryPolicy="ACKNOWLEDGED") for _ in range(2)]
    await until(so(lambda: hub.box.attempts))
    reply = await put(hub, "mail", settings={"box": "broken"})
    assert (reply.status, reply.code) == (400, "bad_request"), reply.text
    assert "'mail' cannot be made: no such server" in reply.message
    kept = (await hub.service("GET", f"{HUB}/adapters/mail")).json
    assert kept["settings"] == {"box": "box"}
    hub.box.gate.set()
    for each in sent:
        assert await hub.report(each) == ("ACK", "")
    assert (hub.box.made, hub.box.closed) == (1, 0)


async def test_what_waits_goes_out_by_the_new_adapter_and_the_old_one_ends_its_push(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    sent = [await hub.send("ann", deliveryPolicy="ACKNOWLEDGED") for _ in range(2)]
    await until(so(lambda: hub.box.attempts))
    BOXES["other"].gate.set()
    assert (await put(hub, "mail", settings={"box": "other"})).status == 200
    await hub.peer("bob", ("mail", "bob"))
    await hub.report(await hub.send("bob", deliveryPolicy="ACKNOWLEDGED"))
    assert hub.box.closed == 0, "a push runs by it"
    hub.box.gate.set()
    for each in sent:
        assert await hub.report(each) == ("ACK", "")
    assert [each.message.id for each in hub.box.got] == sent[:1]
    assert [each.message.id for each in BOXES["other"].got[1:]] == sent[1:]
    await until(so(lambda: hub.box.closed == 1))


async def test_what_failed_is_tried_at_once_by_the_new_adapter(start_hub: StartHub) -> None:
    patient = {"webhooks__firstRetry": 3600, "webhooks__longestRetry": 3600}
    hub = await comm_hub(start_hub, server=patient)
    await hub.peer("ann", ("mail", "later"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")

    async def has_failed() -> bool:
        return (await status(hub, "mail")).get("last_error") == "busy"

    await until(has_failed)
    BOXES["other"].attempts += hub.box.attempts  # this one is not busy
    assert (await put(hub, "mail", settings={"box": "other"})).status == 200
    assert await hub.report(sent) == ("ACK", "")
    assert [each.key for each in BOXES["other"].got] == [hub.box.attempts[0].key]


async def test_an_adapter_that_cannot_be_made_after_a_restart_is_shown_and_its_queue_waits(
    start_server: StartHub,
) -> None:
    hub = await comm_hub(start_server)
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(so(lambda: hub.box.attempts))
    key = hub.box.attempts[0].key
    await hub.hub.close()
    hub = await comm_hub(start_server, mail=memory(box="broken"))

    async def is_tried() -> bool:
        return int((await status(hub, "mail"))["failed"]) >= 2

    await until(is_tried)
    shown = await status(hub, "mail")
    assert (shown["last_error"], shown["waiting"]) == ("cannot be made: no such server", 1)
    assert await hub.reports(sent) == []
    assert await hub.report(await hub.send("ann")) == (
        "DELIVERYERROR",
        "no adapter serves an address",
    )
    await hub.hub.close()
    hub = await comm_hub(start_server)
    hub.box.gate.set()
    assert await hub.report(sent) == ("ACK", "")
    assert [each.key for each in hub.box.got] == [key]


async def test_an_adapter_that_listens_is_replaced_on_the_same_port(start_server: StartHub) -> None:
    hub = await comm_hub(start_server)
    port = free_port()

    async def say(text: str) -> str:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text.encode() + b"\n")
            said = (await reader.read()).decode()
            writer.close()
            return said

    assert (await put(hub, "lines", "test-port", settings={"port": port})).status == 201
    await until(lambda: _listens(port))
    first = await say("one")
    assert (await hub.logged(id=first))[0]["message"]["type"] == "NOTE"
    settings = {"port": port, "type": "LINE"}
    assert (await put(hub, "lines", "test-port", settings=settings)).status == 200

    async def is_new() -> bool:
        sent = await say("two") if await _listens(port) else ""
        return bool(sent and await hub.logged(id=sent, type="LINE"))

    await until(is_new)
    assert "last_error" not in await status(hub, "lines")


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_a_replacement_that_does_not_begin_to_listen_is_shown(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    await until(so(lambda: BOXES["in"].publish))
    assert (await put(hub, "door", "test-push", settings={"box": "deaf"})).status == 200

    async def is_shown() -> bool:
        return (await status(hub, "door")).get("last_error") == "does not listen: the port is taken"

    await until(is_shown)
    assert BOXES["in"].stopped == 1


async def test_a_replacement_is_tried_out_with_the_secrets_that_are_hidden(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    for key, expected in (("wrong", 400), ("right", 201), ("(hidden)", 200), ("wrong", 400)):
        reply = await put(hub, "door", "test-lock", secrets={"key": key}, maxParallel=5)
        assert reply.status == expected, reply.text
        assert expected != 400 or "the key does not fit" in reply.message
    reply = await put(hub, "new", "test-lock", secrets={"key": "(hidden)"})
    assert (reply.status, reply.code) == (400, "secret_needed"), reply.text


async def test_an_output_adapter_whose_name_an_input_takes_sends_what_waits(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(so(lambda: hub.box.attempts))
    waiting = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert (await put(hub, "mail", "test-pull", settings={"box": "in"})).status == 200
    hub.box.gate.set()
    for each in (sent, waiting):
        assert await hub.report(each) == ("ACK", "")


class StuckSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


@adapter(name="test-stuck", settings=StuckSettings, direction="push", timeout_seconds=0.05)
class Stuck:
    """Neither begins nor ends to listen."""

    def __init__(self, settings: StuckSettings, context: AdapterContext) -> None:
        pass

    async def start(self, publish: Publish) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass


async def test_an_adapter_that_never_begins_to_listen_is_refused_shown_and_holds_nothing_up(
    start_server: StartHub,
) -> None:
    hub = await comm_hub(start_server, mail=memory(), stuck=AdapterSettings("test-stuck"))
    reply = await put(hub, "new", "test-stuck")
    assert (reply.status, "it took too long" in reply.message) == (400, True), reply.text

    async def is_shown() -> bool:
        return (await status(hub, "stuck")).get("last_error") == "does not listen: it took too long"

    await until(is_shown)
    async with asyncio.timeout(10):
        await hub.hub.close()


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        ("rest", {"url": "pager.example.org"}, "`url` is no URL that begins with http://"),
        ("rest", {"url": "nats:pager"}, "`url` is no URL that begins with http://"),
        ("rest", {"url": "https://ann:s3cret@example.org"}, "holds a user or password"),
        ("rest", {"headers": {"X Key": "1"}}, "has the name 'X Key', which HTTP does not allow"),
        ("rest-pull", {"url": "http://x"}, "`authorization` holds what HTTP does not allow"),
        ("feed", {"url": ""}, "`url` is no URL"),
        ("matrix", {"homeserver": "ftp://x"}, "`homeserver` is no URL"),
        ("folder", {"type": ""}, "$.type"),
        ("folder", {"receiver": "a\nb"}, "$.receiver"),
        ("ftp", {"host": "a b"}, "$.host"),
    ],
)
async def test_settings_that_no_message_could_come_or_go_by_are_refused(
    start_hub: StartHub, kind: str, settings: dict[str, Any], says: str
) -> None:
    hub = await comm_hub(start_hub)
    given = {"matrix": {"accessToken": "t"}, "rest-pull": {"authorization": "Bearer s3cret\u0142"}}
    secrets = given.get(kind, {})
    reply = await put(hub, "new", kind, settings=settings, secrets=secrets)
    assert (reply.status, reply.code) == (422, "invalid_attribute"), reply.text
    assert says in reply.message
    assert "s3cret" not in reply.message


@pytest.mark.spec("ADMIN-01")
async def test_whole_numbers_may_be_written_with_a_point(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    settings = {"maxBytes": 100.0}
    reply = await put(hub, "new", "folder", settings=settings, intervalMs=3_600_000.0)
    assert reply.status == 201, reply.text
    for wrong in ({"maxBytes": 100.5}, {"maxBytes": "100"}):
        assert (await put(hub, "new", "folder", settings=wrong)).status == 422
    assert (await put(hub, "new", "folder", settings=settings, intervalMs=5.5)).status == 400


@adapter(name="test-odd", settings=StuckSettings)
class Odd:
    """Cannot be constructed as adapters are."""

    def __init__(self, host: str, port: int, user: str) -> None:
        pass

    async def push(self, delivery: Delivery) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_an_adapter_with_another_constructor_is_refused(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    reply = await put(hub, "odd", "test-odd")
    assert (reply.status, reply.code) == (400, "bad_request"), reply.text
    assert "the adapter 'odd' cannot be made" in reply.message
    assert (await hub.service("GET", f"{HUB}/adapters/odd")).status == 404


async def set_reach(hub: CommHub, reach: str) -> None:
    operator = Caller(hub.hub, hub.hub.token("root", "*", Level.ADMIN))
    settings = (await operator("GET", f"{HUB}/settings")).json
    reply = await operator("PUT", f"{HUB}/settings", {**settings, "callbackAddresses": reach})
    assert reply.status == 200, reply.text


async def test_adapters_that_live_keep_to_the_addresses_that_the_hub_may_reach_now(
    start_hub: StartHub,
) -> None:
    async with Receiver(lambda _: 204) as server, mail_server() as mails:
        place = {"host": "127.0.0.1", "port": mails.port, "security": "none"}
        mail = AdapterSettings("email", {**place, "sender": "hub@example.org"})
        hub = await comm_hub(start_hub, pager=AdapterSettings("rest"), mail=mail)
        await hub.peer("ann", ("pager", server.url))
        await hub.peer("bob", ("mail", "bob@example.org"))
        for reach, verdict in (("loopback", "ACK"), ("public", "COMERROR"), ("loopback", "ACK")):
            await set_reach(hub, reach)
            for peer in ("ann", "bob"):
                sent = await hub.send(peer, deliveryPolicy="ACKNOWLEDGED")
                assert (await hub.report(sent))[0] == verdict, (reach, peer)
        assert (len(server.received), len(mails.mails)) == (2, 2)


async def test_an_adapter_that_is_replaced_while_privacy_is_asked_sends_nothing_more(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "a"))
    (communication,) = hub.hub.server.communication._hubs.values()
    knowledge, gate, asked = communication.dispatcher.knowledge, asyncio.Event(), asyncio.Event()
    peer = knowledge.peer

    async def slowly(name: str) -> Any:
        asked.set()
        await gate.wait()
        return await peer(name)

    monkeypatch.setattr(knowledge, "peer", slowly)
    monkeypatch.setattr(knowledge, "cached", lambda name: None)
    await hub.send("ann")
    await asyncio.wait_for(asked.wait(), 5)
    assert (await put(hub, "mail", settings={"box": "other"})).status == 200
    gate.set()
    await until(so(lambda: BOXES["other"].got))
    assert hub.box.got == []
    await until(so(lambda: hub.box.closed == hub.box.made))


async def test_an_adapter_that_is_removed_twice_while_its_queue_waits_is_closed_each_time(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    await hub.send("ann")
    await until(so(lambda: hub.box.attempts))
    for _ in range(2):
        assert (await hub.service("DELETE", f"{HUB}/adapters/mail")).status == 204
        assert (await put(hub, "mail", settings={"box": "box"})).status == 201
    hub.box.gate.set()
    await hub.got(1)
    assert (await hub.service("DELETE", f"{HUB}/adapters/mail")).status == 204
    await until(so(lambda: hub.box.closed == hub.box.made))
