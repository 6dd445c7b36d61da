"""Names of hubs and channels: what is allowed, and what their parts mean."""

from __future__ import annotations

import unicodedata
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidName
from hubbub.domain.names import (
    PARTITIONS,
    ChannelKind,
    check_name,
    dead_letters_of,
    kind_of,
    namespace_of,
    partition_of,
    user_channel,
    without_dead_letters,
)


def allowed(name: str) -> bool:
    """The sentence of the specification, word for word."""
    return 1 <= len(name) <= 255 and not any(
        unicodedata.category(each) in ("Cc", "Cs") or each in "*#" for each in name
    )


@pytest.mark.spec("LIVE-07", "OPS-03")
@given(st.text(max_size=300))
def test_a_name_is_taken_exactly_if_the_specification_allows_it(name: str) -> None:
    if allowed(name):
        assert check_name(name, "channel") == name
    else:
        with pytest.raises(InvalidName):
            check_name(name, "channel")


@pytest.mark.spec("LIVE-07", "OPS-03")
@pytest.mark.parametrize(
    "character", ["\x00", "\n", "\r", "\x1f", "\x7f", "\x85", "*", "#", "\ud800"]
)
def test_forbidden_characters_are_found_anywhere(character: str) -> None:
    for name in (character, f"a{character}", f"{character}a", f"a:{character}:b"):
        with pytest.raises(InvalidName):
            check_name(name, "hub")


@pytest.mark.spec("LIVE-07")
@pytest.mark.parametrize(
    ("channel", "namespace", "kind"),
    [
        ("news", None, ChannelKind.DEFAULT),
        ("a:b:c", "a", ChannelKind.DEFAULT),
        (":a", "", ChannelKind.DEFAULT),
        ("doc:a", "doc", ChannelKind.DOCUMENT),
        ("doc", None, ChannelKind.DEFAULT),
        ("Doc:a", "Doc", ChannelKind.DEFAULT),
        ("docs:a", "docs", ChannelKind.DEFAULT),
        ("notification:a", "notification", ChannelKind.NOTIFICATION),
        ("x:doc:a", "x", ChannelKind.DEFAULT),
    ],
)
def test_namespace_and_kind_come_from_the_first_segment(
    channel: str, namespace: str | None, kind: ChannelKind
) -> None:
    assert namespace_of(channel) == namespace
    assert kind_of(channel) is kind


@pytest.mark.spec("OPS-03")
@given(st.text(max_size=50), st.text(max_size=50))
def test_partitions_are_fixed_forever(hub: str, channel: str) -> None:
    """What is on disk depends on it."""
    expected = crc32(f"{hub}\x00{channel}".encode("utf-8", "surrogatepass")) % 1024
    try:
        found = partition_of(hub, channel)
    except UnicodeEncodeError:
        assert not allowed(hub) or not allowed(channel)
        return
    assert PARTITIONS == 1024
    assert found == expected
    assert partition_of("acme", "news") == 913


@pytest.mark.spec("LIVE-14")
def test_a_user_channel_is_in_the_namespace_of_users() -> None:
    assert namespace_of(user_channel("a:b")) == "u"


@given(st.text("u:.dea", min_size=1, max_size=12))
def test_dead_letters_lead_back_to_their_channel(channel: str) -> None:
    origin = without_dead_letters(channel)
    assert without_dead_letters(dead_letters_of(channel)) == origin
    assert dead_letters_of(channel) != channel


@pytest.mark.spec("LIVE-14")
def test_dead_letters_of_a_user_are_no_channel_of_another() -> None:
    assert dead_letters_of("u:ann") == "u.dead:ann"
    assert without_dead_letters("u:ann.dead") == "u:ann.dead"
    assert without_dead_letters("u.dead.dead:ann") == "u:ann"
