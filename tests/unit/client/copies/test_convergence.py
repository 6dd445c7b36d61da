"""Several copies edit one document at random, over connections that lose, delay and reorder; copies
crash and come back from what they saved."""

from __future__ import annotations

import json
from itertools import count
from random import Random
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model_document_hub import ModelHub
from hubbub.client.copies.changes import (
    Backoff,
    Confirmed,
    Fetch,
    Forget,
    Guard,
    Rejected,
    Save,
    SavedChange,
    Send,
    Wait,
)
from hubbub.client.copies.replica import Fetched, Replica, Update
from hubbub.domain.documents.values import copy_of
from hubbub.domain.errors import HubbubError, Unavailable

GUARDS: tuple[Guard, ...] = ("auto", "auto", "always", "never")


class Peer:
    """A copy, its file, and its connection to the hub."""

    def __init__(self, name: str, hub: ModelHub, random: Random) -> None:
        self.name = name
        self.hub = hub
        self.random = random
        self.ids = count(1)
        self.producers = count(1)
        self.rows: dict[str, SavedChange] = {}
        self.stamp = ("", 0)
        self.base: tuple[str, int, Any] | None = None
        self.confirmed: list[str] = []
        self.rejected: list[str] = []
        self.made: list[str] = []
        self.increments: list[str | None] = []
        self.connected = False
        self.out: list[Send | Fetch] = []
        self.incoming: list[Any] = []
        self.others: list[Peer] = []
        """All copies of the document."""
        self.replica = self._open()

    def _open(self) -> Replica:
        return Replica(
            lambda: f"{self.name}.{next(self.ids)}",
            lambda: f"{self.name}-{next(self.producers)}",
            saved=self.rows.values(),
            producer=self.stamp[0],
            sequence=self.stamp[1],
        )

    def crash(self) -> None:
        """What was not saved is gone; who waited for it learns nothing."""
        self.disconnect()
        self.replica = self._open()
        if self.base is not None:
            epoch, version, document = self.base
            self.replica.load(epoch, version, copy_of(document))
        self.perform()

    def checkpoint(self) -> None:
        """Save the confirmed document, and the pending changes as they stand on it."""
        replica = self.replica
        self.base = (replica.epoch, replica.version, copy_of(replica.confirmed.root))
        self.rows = {each.id: each for each in replica.unsettled()}

    def connect(self) -> None:
        self.connected = True
        self.replica.connected()
        self.incoming.append((self.hub.epoch, self.hub.version))
        self.perform()

    def disconnect(self) -> None:
        self.connected = False
        if self.random.random() < 0.5:  # the hub gets what was on the way, and answers nobody
            for each in self.out:
                if isinstance(each, Send):
                    self.send(each)
        self.out, self.incoming = [], []
        self.replica.lost()

    def perform(self) -> None:
        for effect in self.replica.effects():
            if isinstance(effect, Save):
                self.rows[effect.change.id] = effect.change
            elif isinstance(effect, Forget):
                self.rows.pop(effect.id, None)
                self.stamp = (effect.producer, effect.sequence)
            elif isinstance(effect, Confirmed):
                self.confirmed.append(effect.id)
            elif isinstance(effect, Rejected):
                self.rejected.append(effect.id)
            elif isinstance(effect, Wait | Backoff):
                self.incoming.append("resend")
            elif self.connected:
                self.out.append(effect)

    def send(self, effect: Send) -> Any:
        if self.random.random() < 0.1:
            return (effect.change.id, Unavailable("not now"))
        try:
            epoch, version, update = self.hub.change(effect.change)
        except HubbubError as error:
            return (effect.change.id, error)
        if update is not None:
            for peer in self.others:
                if peer.connected and self.random.random() < 0.95:
                    peer.incoming.append(update)
        return (effect.change.id, epoch, version)

    def step_out(self) -> None:
        effect = self.out.pop(0)
        self.incoming.append(
            self.send(effect) if isinstance(effect, Send) else self.hub.fetch(effect)
        )

    def step_in(self) -> None:
        place = 0 if self.random.random() < 0.9 else self.random.randrange(len(self.incoming))
        found = self.incoming.pop(place)
        if found == "resend":
            self.replica.resend()
        elif isinstance(found, Update):
            self.replica.updated(found)
        elif isinstance(found, Fetched):
            self.replica.fetched(found)
        elif isinstance(found[1], HubbubError):
            self.replica.refused(*found)
        elif len(found) == 3:
            self.replica.answered(*found)
        else:
            self.replica.informed(*found)
        self.perform()

    def edit(self) -> None:
        random = self.random
        if not self.replica.known:
            return
        at = random.randrange(4)
        patch = random.choice(
            [
                [{"op": "add", "path": "/l/-", "value": f"{self.name}{len(self.made)}"}],
                [{"op": "add", "path": f"/l/{at}", "value": {"by": self.name}}],
                [{"op": "remove", "path": f"/l/{at}"}],
                [{"op": "add", "path": f"/l/{at}/done", "value": True}],
                [{"op": "add", "path": f"/m/{self.name}", "value": at}],
                [{"op": "replace", "path": f"/m/{random.choice('abc')}", "value": at}],
                [{"op": "remove", "path": "/m"}],
                [{"op": "move", "from": "/l/0", "path": "/l/-"}],
                [{"op": "copy", "from": "/m", "path": "/copies/-"}],
                [{"op": "test", "path": "/n", "value": 1}],
                [],
            ]
        )
        try:
            if random.random() < 0.3:
                made = self.replica.edit_by(increment)
                self.increments.append(made)
            else:
                guard = random.choice(GUARDS)
                made = self.replica.edit(json.dumps(patch).encode(), guard)
        except HubbubError:
            return
        if made is not None:
            self.made.append(made)
        self.perform()


def increment(root: Any) -> bytes:
    now = root.get("n", 0) if type(root) is dict else 0
    if now >= 40:
        return b"[]"
    return msgspec.json.encode([{"op": "add", "path": "/n", "value": now + 1}])


def act(peers: list[Peer], random: Random) -> None:
    peer = random.choice(peers)
    chance = random.random()
    if chance < 0.3:
        peer.edit()
    elif chance < 0.6 and peer.out:
        peer.step_out()
    elif chance < 0.9 and peer.incoming:
        peer.step_in()
    elif chance < 0.93:
        peer.disconnect() if peer.connected else peer.connect()
    elif chance < 0.95 and peer.replica.known:
        peer.checkpoint()
    elif chance < 0.965:
        peer.crash()
    elif chance < 0.968:
        peer.hub.begin_anew()
        for each in peers:
            if each.connected:
                each.incoming.append((peer.hub.epoch, 0))


def settle(peers: list[Peer]) -> None:
    for peer in peers:
        if not peer.connected:
            peer.connect()
    for _ in range(10_000):
        busy = [peer for peer in peers if peer.out or peer.incoming]
        if not busy:
            return
        for peer in busy:
            if peer.out:
                peer.step_out()
            elif peer.incoming:
                peer.step_in()
    raise AssertionError("they never come to rest")


@pytest.mark.spec("DOC-03", "local copies converge")
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_copies_converge_and_nothing_is_lost_or_doubled(seed: int) -> None:
    random = Random(seed)
    hub = ModelHub()
    hub.kept = random.choice([0, 3, 10**9])
    peers = [Peer(name, hub, random) for name in "abc"]
    for peer in peers:
        peer.others = peers
        peer.connect()
    for _ in range(random.randrange(20, 400)):
        act(peers, random)
    settle(peers)
    for _ in range(100):  # updates are still lost now and then
        for peer in peers:
            peer.replica.catch_up()
            peer.perform()
        settle(peers)
    ours = {each for peer in peers for each in peer.made}
    applied = [change for _, change in hub.applied]
    assert len(applied) == len(set(applied)), "no change was applied twice"
    assert set(applied) <= ours
    for peer in peers:
        assert peer.replica.pending == []
        assert peer.rows == {}
        assert (peer.replica.epoch, peer.replica.version) == (hub.epoch, hub.version) or (
            peer.replica.version == hub.version == 0
        )
        assert peer.replica.view.root == hub.document.root
        settled = peer.confirmed + peer.rejected
        assert len(settled) == len(set(settled)), "each edit is settled once"
        assert set(settled) == set(peer.made)
        now = {change for epoch, change in hub.applied if epoch == hub.epoch}
        assert not now & set(peer.rejected), "what was handed back had no effect"
    counted = {each for peer in peers for each in peer.increments}
    increments = [change for epoch, change in hub.applied if epoch == hub.epoch]
    assert hub.document.root.get("n", 0) == sum(each in counted for each in increments)
    followed: Any = {}
    for update in hub.log:
        followed = jsonpatch.apply_patch(followed, json.loads(bytes(update.ops)))
    assert followed == json.loads(hub.document.json())
