"""Randomness that a simulation can repeat."""

from __future__ import annotations

import base64
from pathlib import Path

from harness.engine import Alone, subscribe
from hubbub.domain.notices import Subscribed
from hubbub.ports import randomness


def drawn() -> tuple[object, ...]:
    return (
        randomness.token_hex(8),
        randomness.token_urlsafe(20),
        randomness.token_bits(40),
        randomness.fraction(),
        randomness.sample(range(100), 5),
    )


def test_what_is_drawn_follows_from_the_seed_and_only_within_it() -> None:
    with randomness.seeded(7):
        first = drawn()
        other = drawn()
    with randomness.seeded(7):
        assert drawn() == first
    assert first != other
    assert drawn() != first


def test_tokens_have_the_form_that_their_names_say() -> None:
    token = randomness.token_urlsafe(20)
    assert len(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))) == 20
    assert len(bytes.fromhex(randomness.token_hex(8))) == 8
    assert 0 <= randomness.token_bits(40) < 2**40


async def epochs_of(path: Path) -> list[tuple[str, str]]:
    """The session's id and the channel's epoch, in a hub of its own."""
    found = []
    async with Alone(path) as alone:
        for channel in ("news", "sport"):
            connection = alone.node.connect()
            await subscribe(connection, channel)
            (subscribed,) = connection.all(Subscribed)
            assert connection.session is not None
            found.append((connection.session.id, subscribed.channels[0].epoch))
    return found


async def test_a_hub_with_a_seed_gives_the_same_ids_again(tmp_path: Path) -> None:
    with randomness.seeded(7):
        first = await epochs_of(tmp_path / "first")
    with randomness.seeded(7):
        assert await epochs_of(tmp_path / "second") == first
    assert len({each for pair in first for each in pair}) == 4
