"""Callbacks: who is asked about peers and collectives, what is remembered, who is told."""

from __future__ import annotations

import asyncio
import json

import pytest

from harness.admin import HUB, service_of
from harness.clock import FakeClock
from harness.communication import comm_hub, until
from harness.peer_logins import Office, at
from harness.peer_logins import is_so as _is
from harness.receivers import Receiver, whole_answer
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.engine.communication import knowledge


@pytest.mark.spec("COMM-09")
async def test_peers_are_remembered_and_collectives_are_asked_for_each_time(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "CACHED_PEERS", 2)
    hub = await comm_hub(start_server)
    async with Office() as office:
        office.known = {f"/peerInfo/{name}": at(name) for name in ("ann", "bob", "cem")}
        office.known["/collectiveInfo/ops"] = {"members": ["ann", "bob"], "policy": "TO_ANY"}
        await office.serve(hub, "peerInfo", "collectiveInfo")
        for _ in range(3):
            assert await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")) == (
                "ACK",
                "",
            )
        assert office.asked("/peerInfo/ann") == 1
        assert office.received[0].headers["x-key"] == "k"
        for _ in range(2):
            sent = await hub.send("collective:ops", deliveryPolicy="ACKNOWLEDGED")
            assert (await hub.report(sent))[0] == "ACK"
        assert office.asked("/collectiveInfo/ops") == 2
        assert (office.asked("/peerInfo/ann"), office.asked("/peerInfo/bob")) == (1, 1)
        for _ in range(2):  # misses are not remembered
            assert (await hub.report(await hub.send("nobody")))[1] == "unknown peer"
        assert office.asked("/peerInfo/nobody") == 2
        # Two are remembered: ann, who was used first, is not one of them.
        await hub.report(await hub.send("cem", deliveryPolicy="ACKNOWLEDGED"))
        await hub.send("ann")
        await until(lambda: _is(office.asked("/peerInfo/ann") == 2))
        await hub.peer("ann", ("mail", "moved"))  # the hub's own peers come first, at once
        hub.box.got.clear()
        await hub.send("ann")
        assert [each.address.parameters for each in await hub.got(1)] == [("moved",)]


@pytest.mark.spec("COMM-04", "COMM-09")
async def test_answers_that_are_wrong_late_or_circular_are_reported_and_hold_nobody_up(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    async with Office() as office:
        office.known = {
            "/peerInfo/ann": at("ann"),
            "/peerInfo/text": whole_answer(200, b"no json"),
            "/peerInfo/shape": {"addresses": "none"},
            "/peerInfo/broken": whole_answer(500),
            "/collectiveInfo/self": {"members": ["collective:self", "ann"], "policy": "TO_ANY"},
            "/collectiveInfo/all": {"members": ["ann", "collective:all"]},
            "/collectiveInfo/empty": {"members": []},
            "/collectiveInfo/crowd": {"members": [f"p{n}" for n in range(10_001)]},
        }
        await office.serve(hub, "peerInfo", "collectiveInfo")
        for name in ("text", "shape", "broken", "collective:crowd"):
            report = await hub.report(await hub.send(name))
            assert report == ("DELIVERYERROR", "a callback failed"), name
        sent = await hub.send("collective:self", deliveryPolicy="ACKNOWLEDGED")
        assert await hub.report(sent) == ("ACK", "")
        subtype, reason = await hub.report(await hub.send("collective:all"))
        assert (subtype, "a member must be a peer" in reason) == ("DELIVERYERROR", True)
        assert (await hub.report(await hub.send("collective:empty")))[0] == "DELIVERYERROR"
        office.respond = lambda request: asyncio.sleep(60, 200)
        slow = await hub.send("slow")
        assert await hub.report(slow) == ("DELIVERYERROR", "no answer from a callback in time")


@pytest.mark.spec("COMM-09", "COMM-11")
async def test_a_notification_callback_that_fails_starves_no_other(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    heard: list[str] = []

    class Deaf:
        async def notify(self, hub: str, message: PeerMessage) -> None:
            raise RuntimeError("not now")

    class Attentive:
        async def notify(self, hub: str, message: PeerMessage) -> None:
            heard.append(str(message.content))

    hub.hub.server.communication.callbacks += [Deaf(), Attentive()]
    async with Receiver(lambda _: 400) as deaf, Receiver(lambda _: 204) as attentive:
        for name, server in (("a", deaf), ("b", attentive)):
            body = {"url": f"{server.url}/{name}", "roles": ["notify"]}
            assert (await hub.service("PUT", f"{HUB}/callbacks/{name}", body)).status < 300
        sent = await hub.send(content="to nobody")
        (request,) = await attentive.got(1)
        assert (request.path, json.loads(request.body)["id"]) == ("/b", sent)
        await deaf.got(1)
        await until(lambda: _is(heard == ["to nobody"]))


@pytest.mark.spec("COMM-09")
async def test_what_a_callback_said_of_a_peer_holds_for_ten_minutes(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await comm_hub(start_server, clock=clock)
    async with Office() as office:
        office.known = {"/peerInfo/ann": at("ann")}
        await office.serve(hub, "peerInfo")
        for seconds, asked in ((0, 1), (599, 1), (2, 2)):
            clock.advance(seconds)
            hub.service = service_of(hub.hub)  # tokens do not live as long
            assert (await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")))[0]
            assert office.asked("/peerInfo/ann") == asked
