"""Adapters that live in memory, and a hub that uses them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from harness.admin import HUB, Caller, service_of
from harness.running_hub import ANSWER_SECONDS, RunningHub, StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    Publish,
    Pulled,
    TemporaryFailure,
    adapter,
)
from hubbub.ports.clock import Clock

COMM = "/v1/hubs/acme/comm"


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    box: str = "box"


FAULTS: dict[str, BaseException] = {
    "crash": ZeroDivisionError("oops"),
    "cancel": asyncio.CancelledError(),
    "exit": SystemExit(1),
}


class Box:
    """The messages given to a memory adapter. The first parameter of an address selects its
    behaviour: `fail`, `later` (once), `hang`, one of `FAULTS`; with any other the message is
    accepted."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []
        self.attempts: list[Delivery] = []
        self.made = 0
        self.closed = 0
        self.inbox: list[PeerMessage | BaseException | None] = []
        """Results of successive pulls: an exception is raised, None is no message."""
        self.pulls = 0
        self.settled: list[object] = []
        self.publish: Publish | None = None
        self.stopped = 0
        self.gate = asyncio.Event()


BOXES: dict[str, Box] = defaultdict(Box)


class _Memory:
    def __init__(self, settings: Nothing, context: AdapterContext) -> None:
        if settings.box == "broken":
            raise RuntimeError("no such server")
        if context.address is not None and "nowhere" in context.address.parameters:
            raise RuntimeError("no such account")
        self.box = BOXES[settings.box]
        self.box.made += 1

    async def push(self, delivery: Delivery) -> None:
        self.box.attempts.append(delivery)
        how = delivery.address.parameters[0] if delivery.address.parameters else ""
        if how == "fail":
            raise AdapterFailed("no such mailbox")
        if how == "later" and len(self.box.attempts) == 1:
            raise TemporaryFailure("busy")
        if how == "hang":
            await self.box.gate.wait()
        if how in FAULTS:
            raise FAULTS[how]
        self.box.got.append(delivery)

    async def close(self) -> None:
        self.box.closed += 1


@adapter(name="test-memory", settings=Nothing)
class Memory(_Memory):
    """All peers share one."""


@adapter(name="test-hasty", settings=Nothing, timeout_seconds=0.05)
class Hasty(_Memory):
    """An adapter with a short timeout for each push."""


@adapter(name="test-own", settings=Nothing, stateful=True)
class Own(_Memory):
    """One for each peer."""


@adapter(name="test-pull", settings=Nothing, direction="pull")
class Pull:
    def __init__(self, settings: Nothing, context: AdapterContext) -> None:
        self.box = BOXES[settings.box]

    async def pull(self) -> Pulled | None:
        self.box.pulls += 1
        found = self.box.inbox[0] if self.box.inbox else None
        if isinstance(found, PeerMessage):
            return Pulled(found, len(self.box.inbox))
        if self.box.inbox:
            self.box.inbox.pop(0)
        if found is not None:
            raise found
        return None

    async def settle(self, receipt: object) -> None:
        self.box.settled.append(receipt)
        self.box.inbox.pop(0)

    async def close(self) -> None:
        self.box.closed += 1


@adapter(name="test-push", settings=Nothing, direction="push")
class Push:
    def __init__(self, settings: Nothing, context: AdapterContext) -> None:
        self.box = BOXES[settings.box]

    async def start(self, publish: Publish) -> None:
        if self.box is BOXES["deaf"]:
            raise OSError("the port is taken")
        self.box.publish = publish

    async def stop(self) -> None:
        self.box.stopped += 1


def memory(kind: str = "test-memory", box: str = "box", **more: Any) -> AdapterSettings:
    return AdapterSettings(kind, {"box": box}, **more)


class CommHub:
    """A running hub whose peers are reached in memory."""

    def __init__(self, hub: RunningHub) -> None:
        self.hub = hub
        self.service: Caller = service_of(hub)
        self.box = BOXES["box"]

    def of_service(self) -> CommHub:
        """Uses a fresh service token: tokens expire when a test turns the clock."""
        self.service = service_of(self.hub)
        return self

    async def peer(self, name: str, *addresses: tuple[str, str], **more: Any) -> None:
        body = {
            "addresses": [{"adapter": a, "parameters": [p]} for a, p in addresses],
            **more,
        }
        reply = await self.service("PUT", f"{HUB}/peers/{name}", body)
        assert reply.status == 200, reply.text

    async def collective(
        self, name: str, *members: str, policy: str = "TO_ALL_MEMBERS", **more: Any
    ) -> None:
        body = {"members": list(members), "policy": policy, **more}
        reply = await self.service("PUT", f"{HUB}/collectives/{name}", body)
        assert reply.status == 200, reply.text

    async def send(self, receiver: str = "", **more: Any) -> str:
        """`how`: the query of the request; others are fields of the message."""
        how = more.pop("how", "")
        body = {"type": "ALARM", "subtype": "fire", "sender": "component:desk", **more}
        if receiver:
            body["receiver"] = receiver
        reply = await self.service("POST", f"{COMM}/messages{how}", body)
        assert reply.status == 200, reply.text
        sent: str = reply.json["id"]
        return sent

    async def follow(self, peer: str, channel: str, start: str = "new") -> None:
        path = f"{HUB}/peers/{peer}/subscriptions/{channel}?start={start}"
        reply = await self.service("PUT", path)
        assert reply.status == 200, reply.text

    async def followed(self, peer: str) -> list[dict[str, Any]]:
        reply = await self.service("GET", f"{HUB}/peers/{peer}/subscriptions")
        assert reply.status == 200, reply.text
        found: list[dict[str, Any]] = reply.json["items"]
        return found

    async def publish(self, channel: str, text: str, **more: Any) -> str:
        """The message's id."""
        headers = {"Content-Type": "text/plain", **more}
        path = f"/v1/hubs/acme/topics/{channel}/messages?event=note"
        reply = await self.service("POST", path, data=text.encode(), **headers)
        assert reply.status == 200, reply.text
        sent: str = reply.json["msgID"]
        return sent

    async def logged(self, **criteria: str) -> list[dict[str, Any]]:
        """Messages of the log, the oldest first."""
        query = "&".join(f"{name}={value}" for name, value in criteria.items())
        reply = await self.service("GET", f"{HUB}/messages?{query}")
        assert reply.status == 200, reply.text
        return list(reversed(reply.json["items"]))

    async def reports(self, message_id: str) -> list[tuple[str, str]]:
        """Control messages about a message: subtype and content."""
        found = await self.logged(type="CONTROL")
        return [
            (each["message"]["subtype"], each["message"].get("content", ""))
            for each in found
            if each["message"].get("refersTo") == message_id
        ]

    async def report(self, message_id: str) -> tuple[str, str]:
        """The one report, when it is there."""
        await until(lambda: self._decided(message_id))
        (found,) = await self.reports(message_id)
        return found

    async def _decided(self, message_id: str) -> bool:
        return bool(await self.reports(message_id))

    async def got(self, count: int) -> list[Delivery]:
        async def enough() -> bool:
            return len(self.box.got) >= count

        await until(enough)
        return self.box.got


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        while not await condition():
            await asyncio.sleep(0.01)


async def comm_hub(
    start_hub: StartHub,
    *,
    more: dict[str, Any] | None = None,
    rules: dict[str, Rules] | None = None,
    clock: Clock | None = None,
    server: Mapping[str, object] | None = None,
    **adapters: AdapterSettings,
) -> CommHub:
    """`rules` hold in the namespaces of the same names; `server` overrides its settings."""
    BOXES.clear()
    named = adapters or {"mail": memory()}
    settings = msgspec.convert({"callbackAddresses": "loopback", **(more or {})}, HubSettings)
    rules = rules or {}
    namespaces = {name: name for name in rules}
    configuration = HubConfiguration("acme", settings, rules, namespaces, adapters=named)
    quick = {"webhooks__firstRetry": 0.02, "webhooks__longestRetry": 0.05}
    hub = await start_hub(configuration, clock=clock, **{**quick, **(server or {})})
    return CommHub(hub)
