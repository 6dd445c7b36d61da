"""A server that knows peers and their passwords, and a hub whose peers need tokens."""

from __future__ import annotations

import json
from typing import Any

from harness.admin import HUB
from harness.clock import FakeClock
from harness.communication import COMM, CommHub, comm_hub, memory, until
from harness.receivers import Received, Receiver, Reply, whole_answer
from harness.running_hub import StartHub


class Office(Receiver):
    """A callback server: answers questions about peers and collectives, and verifies logins."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.known: dict[str, Any] = {}
        """Responses by path; bytes are sent unchanged."""
        self.passwords = {"ann": "s3cret", "bob": "other"}

    def _answer(self, request: Received) -> Reply:
        name = request.path.rpartition("/")[2]
        if request.path.startswith("/peerAuth/"):
            said = json.loads(request.body)["password"]
            return whole_answer(200, json.dumps(self.passwords.get(name) == said).encode())
        found = self.known.get(request.path)
        if found is None:
            return 404
        return found if isinstance(found, bytes) else whole_answer(200, json.dumps(found).encode())

    def asked(self, path: str) -> int:
        return sum(each.path == path for each in self.received)

    async def serve(self, hub: CommHub, *roles: str) -> None:
        body = {"url": self.url, "roles": list(roles), "headers": {"X-Key": "k"}}
        reply = await hub.service("PUT", f"{HUB}/callbacks/office", body)
        assert reply.status < 300, reply.text


def at(address: str) -> dict[str, Any]:
    return {"addresses": [{"adapter": "mail", "parameters": [address]}]}


async def is_so(value: object) -> bool:
    return bool(value)


async def token_hub(start_hub: StartHub, clock: FakeClock | None = None, **more: Any) -> CommHub:
    hub = await comm_hub(
        start_hub,
        more={"communication": {"tokens": "required", "tokenSeconds": 60, **more}},
        clock=clock,
        mail=memory(),
        door=memory("test-push", "in"),
    )
    for peer in ("ann", "bob", "desk"):
        await hub.peer(peer, ("mail", peer))
    return hub


async def hand_in(hub: CommHub, sender: str, **more: Any) -> str:
    body = {"type": "NOTE", "subtype": "TEXT", "sender": sender, "receiver": "desk", **more}
    reply = await hub.service("POST", f"{COMM}/input/door", body)
    assert reply.status == 200, reply.text
    return str(reply.json["id"])


async def answers(hub: CommHub, peer: str, count: int) -> list[tuple[str, str]]:
    """Messages of the authentication manager to the peer, received by the peer's own adapter."""

    def told() -> list[tuple[str, str]]:
        return [
            (each.message.subtype, str(each.message.content))
            for each in hub.box.got
            if each.peer == peer and each.message.type == "AUTH"
        ]

    await until(lambda: is_so(len(told()) >= count))
    return told()


async def log_in(hub: CommHub, peer: str, password: str, count: int) -> tuple[str, str]:
    """The last of `count` answers that the peer got so far."""
    await hand_in(hub, peer, type="AUTH", subtype="REQUEST", receiver="", content=password)
    return (await answers(hub, peer, count))[count - 1]


def contents(hub: CommHub) -> list[str]:
    return [str(each.message.content) for each in hub.box.got if each.peer == "desk"]
