"""The application's API in Python: callbacks and adapters as objects of the program that runs the
hub."""

from __future__ import annotations

import asyncio

import pytest

from harness.admin import HUB
from harness.communication import CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo
from hubbub.domain.errors import Conflict, InvalidAttribute
from hubbub.ports.adapters import (
    AdapterContext,
    Delivery,
    Pulled,
    PushTasks,
    TemporaryFailure,
    declaring,
)
from hubbub.ports.adapters import adapter as declared_as
from hubbub.ports.directories import PeerDirectory
from hubbub.server.people import NoInstanceSettings, PeopleInProcess

pytestmark = pytest.mark.spec("COMM-11", "COMM-09")


class Staff(PeerDirectory):
    """Knows one peer and one collective, and no passwords."""

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        return PeerInfo((Address("printer", ("a",)),)) if peer == "ann" else None

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        return CollectiveInfo(("ann",)) if collective == "team" else None


class Printer:
    """Fails once."""

    def __init__(self) -> None:
        self.printed: list[Delivery] = []
        self.failures = [TemporaryFailure("no paper")]
        self.closed = False

    async def push(self, delivery: Delivery) -> None:
        if self.failures:
            raise self.failures.pop()
        self.printed.append(delivery)

    async def close(self) -> None:
        self.closed = True


class Ticker(PushTasks):
    """Hands in a message in each turn of its task, for as long as it is not removed."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.ended = False

    async def init(self) -> None:
        self.schedule(self._tick())
        self.schedule(self._fail())

    async def _tick(self) -> None:
        while True:
            await self.publish_message(PeerMessage(type="TICK", subtype="s", receiver="ann"))
            await self.go_on.wait()
            self.go_on.clear()

    async def _fail(self) -> None:
        raise RuntimeError("one task that fails ends no other")

    async def clean_up(self) -> None:
        self.ended = True


class Sensor:
    def __init__(self) -> None:
        self.waiting = [PeerMessage(type="TICK", subtype="s", receiver="ann", content="hot")]
        self.settled: list[object] = []

    async def pull(self) -> Pulled | None:
        return Pulled(self.waiting.pop(), "one") if self.waiting else None

    async def settle(self, receipt: object) -> None:
        self.settled.append(receipt)

    async def close(self) -> None:
        pass


class Listener:
    def __init__(self) -> None:
        self.heard: list[PeerMessage] = []

    async def notify(self, hub: str, message: PeerMessage) -> None:
        self.heard.append(message)


async def with_printer(start_hub: StartHub) -> tuple[CommHub, PeopleInProcess, Printer]:
    hub = await comm_hub(start_hub, mail=memory())
    people = hub.hub.server.people
    people.add_directory(Staff())
    printer = Printer()
    assert await people.add_adapter("acme", "printer", printer) == "printer"
    return hub, people, printer


async def _is(value: object) -> bool:
    return bool(value)


async def test_directories_and_output_adapters_are_objects_of_the_program(
    start_hub: StartHub,
) -> None:
    hub, people, printer = await with_printer(start_hub)
    sent = await hub.send("collective:team", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert [each.peer for each in printer.printed] == ["ann"]
    assert await people.remove_adapter("acme", "printer")
    assert not await people.remove_adapter("acme", "printer")
    await until(lambda: _is(printer.closed))
    report = await hub.report(await hub.send("ann"))
    assert report == ("DELIVERYERROR", "no adapter serves an address")


async def test_a_push_adapter_has_tasks_that_end_with_it(start_hub: StartHub) -> None:
    hub, people, printer = await with_printer(start_hub)
    ticker = Ticker()
    await people.add_adapter("acme", "ticker", ticker)
    await until(lambda: _is(len(printer.printed) == 1))
    ticker.go_on.set()
    await until(lambda: _is(len(printer.printed) == 2))
    assert await people.remove_adapter("acme", "ticker")
    await until(lambda: _is(ticker.ended))
    ticker.go_on.set()
    with pytest.raises(Exception, match="does not listen"):
        await ticker.publish_message(PeerMessage(type="TICK", subtype="s"))
    assert len(await hub.logged(type="TICK")) == 2


async def test_a_pull_adapter_is_pulled_and_another_one_takes_its_name(
    start_hub: StartHub,
) -> None:
    _, people, printer = await with_printer(start_hub)
    sensors = Sensor(), Sensor()
    for each in sensors:
        await people.add_adapter("acme", "sensor", each, interval_ms=50)
        await until(lambda: _is(len(printer.printed) == sum(not one.waiting for one in sensors)))
        await until(lambda: _is(sensors[0].settled))
    await until(lambda: _is(sensors[1].settled))
    with pytest.raises(InvalidAttribute, match="is no adapter"):
        await people.add_adapter("acme", "wrong", object())  # type: ignore[arg-type]


async def test_callbacks_hear_what_has_no_receiver_until_they_are_unregistered(
    start_hub: StartHub,
) -> None:
    hub, people, _ = await with_printer(start_hub)
    listener = Listener()
    name = people.register_notification_callback(listener)
    assert people.register_notification_callback(listener) == name
    sent = await hub.send("")
    await until(lambda: _is(listener.heard))
    assert [each.id for each in listener.heard] == [sent]
    assert people.unregister_notification_callback(name)
    assert not people.unregister_notification_callback(name)
    await hub.send("")
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    assert len(listener.heard) == 1
    staff = Staff()
    people.add_directory(staff)
    assert (people.remove_directory(staff), people.remove_directory(staff)) == (True, False)


async def test_a_class_becomes_a_kind_that_hubs_use_while_the_server_runs(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory())
    printed: list[Delivery] = []
    people = hub.hub.server.people
    with declaring():

        @declared_as(name="test-at-run-time", settings=NoInstanceSettings, stateful=True)
        class Late:
            def __init__(self, settings: NoInstanceSettings, context: AdapterContext) -> None:
                assert context.address is not None

            async def push(self, delivery: Delivery) -> None:
                printed.append(delivery)

            async def close(self) -> None:
                pass

        assert people.register_adapter(Late) == "test-at-run-time"
        with pytest.raises(Conflict):
            people.register_adapter(Late)
    with pytest.raises(InvalidAttribute, match="decorator"):
        people.register_adapter(Printer)
    reply = await hub.service("PUT", f"{HUB}/adapters/late", {"kind": "test-at-run-time"})
    assert reply.status == 201, reply.text
    await hub.peer("bob", ("late", "b"))
    await hub.send("bob")
    await until(lambda: _is(printed))


async def test_how_long_a_delivery_is_tried_is_a_setting_of_its_own(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, server={"adapters__giveUpAfter": 0.2}, mail=memory())
    printer = Printer()
    printer.failures = [TemporaryFailure("no paper")] * 1000
    people = hub.hub.server.people
    people.add_directory(Staff())
    await people.add_adapter("acme", "printer", printer)
    assert await hub.report(await hub.send("ann")) == ("COMERROR", "no paper")
