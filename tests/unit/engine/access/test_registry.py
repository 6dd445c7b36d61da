"""The registry of subscribers: taking access away holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from harness.clock import FakeClock
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.permissions import Identity, Reader
from hubbub.domain.rules import Rules, TrustedIssuer
from hubbub.engine.access.registry import AccessRegistry, Subscriber
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.access.tokens import SigningKey, Tokens
from hubbub.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.spec("SEC-01", "SEC-03")


class Listener(Subscriber):
    def __init__(self, issuer: str | None = None) -> None:
        self.channels = ["news"]
        self._issuer = issuer

    @property
    def reader(self) -> Reader:
        return Reader(Identity("ann", foreign=self._issuer is not None, issuer=self._issuer))

    def followed(self) -> Collection[str]:
        return self.channels

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        self.channels = [each for each in self.channels if each not in channels]

    def end(self, error: HubbubError) -> None:
        self.channels = []


def make_tokens(folder: Path) -> Tokens:
    clock = FakeClock()
    keys = [SigningKey("k", b"k" * 32)]
    revocations = Revocations(SqliteStore(folder / "never-opened"), clock)
    return Tokens(
        session_keys=keys, admin_keys=keys, issuer="test", clock=clock, revocations=revocations
    )


async def test_a_hub_with_many_subscribers_is_reviewed_in_turns_and_all_of_it(
    tmp_path: Path,
) -> None:
    tokens = make_tokens(tmp_path)
    rules = OPEN
    registry = AccessRegistry(lambda _: open_hub(rules=rules), tokens)
    listeners = [Listener() for _ in range(1_000)]
    for listener in listeners:
        registry.add("acme", listener)
    gone = listeners[0]
    rules = Rules()
    registry.review("acme")
    after_one_turn = sum(not each.channels for each in listeners)
    assert 0 < after_one_turn < 500
    registry.remove("acme", gone)
    registry.review("acme")  # changed again meanwhile
    for _ in range(50):
        await asyncio.sleep(0)
    assert all(not each.channels for each in listeners[1:])
    assert gone.channels, "who has left is not looked at any more"


@pytest.mark.spec("SEC-02")
async def test_who_a_removed_issuer_vouched_for_loses_everything_at_once(tmp_path: Path) -> None:
    trusted = [TrustedIssuer(f"https://{name}.example", "acme") for name in ("one", "two")]
    registry = AccessRegistry(
        lambda _: open_hub(trusted_issuers=tuple(trusted)), make_tokens(tmp_path)
    )
    of_one, of_two, own = Listener(trusted[0].issuer), Listener(trusted[1].issuer), Listener()
    for listener in (of_one, of_two, own):
        registry.add("acme", listener)
    del trusted[0]
    registry.review("acme")
    assert (of_one.channels, of_two.channels, own.channels) == ([], ["news"], ["news"])
    late = Listener("https://one.example")
    registry.add("acme", late)  # from the disk, or restored on another node
    assert late.channels == []


async def test_a_channel_that_a_token_of_a_removed_issuer_opened_is_lost(tmp_path: Path) -> None:
    class WithToken(Listener):
        def reader_of(self, channel: str) -> Reader:
            return Listener("https://one.example").reader if channel == "shown" else self.reader

    trusted = [TrustedIssuer("https://one.example", "acme")]
    registry = AccessRegistry(
        lambda _: open_hub(trusted_issuers=tuple(trusted)), make_tokens(tmp_path)
    )
    listener = WithToken()
    listener.channels.append("shown")
    registry.add("acme", listener)
    assert listener.channels == ["news", "shown"]
    trusted.clear()
    registry.review("acme")
    assert listener.channels == ["news"]
