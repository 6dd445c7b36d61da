"""Run as a process by `test_communication_kills.py`: a hub whose peers are reached by lines in a
file. It sends messages until it is killed, or kills itself at a step, and prints each id once it
was answered; or it waits until nothing is open and prints what the log says of every message."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.running_hub import hub_settings
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo
from hubbub.domain.communication.settings import AdapterSettings, CommunicationSettings
from hubbub.domain.communication.steps import CommunicationStep
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import HubConfiguration, HubSettings
from hubbub.engine.communication.service import Communication
from hubbub.ports.adapters import AdapterContext, AdapterFailed, Delivery, Publish, adapter
from hubbub.ports.storage.communication import LogQuery
from hubbub.ports.storage.messages import Append
from hubbub.server.wiring import Server
from hubbub.storage.sql.store import SqlStore

SERVICE = Identity("backend", Level.SERVICE)
MODE = sys.argv[2]
RECEIVERS = (
    "ann", "lost", "collective:all", "collective:any", "nobody", "turns", "collective:order",
)  # fmt: skip
TARGET = sys.argv[3] if len(sys.argv) > 3 else "collective:all"
"""Whom the hub that kills itself sends to."""
HELD = "held"
"""The receiver of messages whose senders never log in."""


class LinesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str


@adapter(name="test-lines", settings=LinesSettings)
class Lines:
    def __init__(self, settings: LinesSettings, context: AdapterContext) -> None:
        self._file = Path(settings.path).open("ab", buffering=0)  # noqa: SIM115

    async def push(self, delivery: Delivery) -> None:
        if delivery.address.parameters == ("fail",):
            raise AdapterFailed("no such mailbox")
        if delivery.address.parameters == ("never",):
            raise AssertionError("an address before this one has the message")
        line = f"{delivery.message.id} {delivery.peer} {delivery.key}\n"
        if MODE == "before push":
            kill()
        self._file.write(line.encode())
        if MODE == "after push":
            kill()

    async def close(self) -> None:
        self._file.close()


@adapter(name="test-door", settings=msgspec.defstruct("DoorSettings", []), direction="push")
class Door:
    def __init__(self, settings: msgspec.Struct, context: AdapterContext) -> None:
        pass

    async def start(self, publish: Publish) -> None:
        pass

    async def stop(self) -> None:
        pass


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(step: str) -> None:
    """SIGKILL once the step is reached: before or after something is stored. Those of a push are in
    `Lines`."""
    append, save_step = SqlStore.append, SqlStore.save_step

    async def appending(self: SqlStore, appends: Sequence[Append]) -> Any:
        events = {each.message.event for each in appends} & {"ALARM", "CONTROL"}
        if step in {f"before {event}" for event in events}:
            kill()
        answer = await append(self, appends)
        if step in {f"after {event}" for event in events}:
            kill()
        return answer

    async def saving(self: SqlStore, hub: str, changes: CommunicationStep, *more: int) -> None:
        what = "plan" if changes.planned else "outcome"
        if step == f"before {what}":
            kill()
        await save_step(self, hub, changes, *more)
        if step == f"after {what}":
            kill()

    SqlStore.append = appending  # type: ignore[method-assign]
    SqlStore.save_step = saving  # type: ignore[assignment]


async def main(folder: Path, mode: str) -> None:
    lines = AdapterSettings("test-lines", {"path": str(folder / "deliveries")})
    kill_at(mode)
    adapters = {"lines": lines, "door": AdapterSettings("test-door")}
    settings = HubSettings(communication=CommunicationSettings(tokens="required"))
    server = Server(hub_settings(folder, HubConfiguration("acme", settings, adapters=adapters)))
    await server.start()
    hub, communication = server.node.hub("acme"), server.node.feature(Communication)
    if mode == "settle":
        await settle(server)
    else:
        peers = [("ann", PeerInfo((Address("lines", ("a",)),))),
                 ("bob", PeerInfo((Address("lines", ("b",)), Address("lines", ("c",))))),
                 ("lost", PeerInfo((Address("lines", ("fail",)),))),
                 ("turns", PeerInfo((Address("lines", ("fail",)), Address("lines", ("b",)),
                                     Address("lines", ("never",))), "IN_ORDER"))]  # fmt: skip
        await communication.save_peers(hub, peers)
        await communication.save_collective(hub, "all", CollectiveInfo(("ann", "bob")))
        await communication.save_collective(hub, "any", CollectiveInfo(("lost", "bob"), "TO_ANY"))
        order = CollectiveInfo(("nobody", "lost", "turns", "ann"), "IN_ORDER")
        await communication.save_collective(hub, "order", order)
        if mode == "send":
            await asyncio.gather(hold(server), *(send(server, each) for each in range(14)))
        await send(server, RECEIVERS.index(TARGET), once=True)
        await asyncio.sleep(10)


async def send(server: Server, number: int, once: bool = False) -> None:
    hub = server.node.hub("acme")
    while True:
        message = PeerMessage(
            type="ALARM",
            subtype="fire",
            sender="component:desk",
            receiver=RECEIVERS[number % len(RECEIVERS)],
            delivery_policy="ACKNOWLEDGED",
        )
        print(await server.node.feature(Communication).send(hub, SERVICE, message), flush=True)
        number += 1
        if once:
            return


async def hold(server: Server) -> None:
    """Messages without a token, each of another peer, that run out soon."""
    hub = server.node.hub("acme")
    while True:
        fields = {"type": "ALARM", "subtype": "fire", "receiver": HELD, "ttl_ms": 100}
        message = PeerMessage(sender=secrets.token_hex(8), **fields)  # type: ignore[arg-type]
        print(await server.node.feature(Communication).take_in(hub, "door", message), flush=True)
        await asyncio.sleep(0.005)


async def settle(server: Server) -> None:
    while await server.store.read_busy_hubs():
        await asyncio.sleep(0.02)
    before: int | None = None
    while True:
        page = await server.store.query_log(LogQuery("acme"), before, 500)
        for each in page.messages:
            attributes = each.message.attributes
            assert attributes is not None
            logged = (each.message.id, each.message.event, attributes.subtype,
                      attributes.receiver, attributes.refers_to)  # fmt: skip
            print(json.dumps(logged), flush=True)
        before = page.before
        if before is None:
            break
    await server.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
