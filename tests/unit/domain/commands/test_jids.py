"""Addresses of users, sessions and channels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.commands.jids import Jid, channel_id, parse_channel, parse_jid, parse_target
from hubbub.domain.commands.status import CommandRefused, Status

pytestmark = pytest.mark.spec("CMD-01")


@pytest.mark.parametrize(
    ("text", "jid"),
    [
        ("ann@demo", Jid("ann", "demo")),
        ("ann@demo/", Jid("ann", "demo")),
        ("ann@demo/tab 1", Jid("ann", "demo", "tab 1")),
        ("ann@demo/a@b", Jid("ann", "demo", "a@b")),
        ("a%40b@demo", Jid("a@b", "demo")),
    ],
)
def test_a_jid_has_a_user_a_domain_and_perhaps_a_resource(text: str, jid: Jid) -> None:
    assert parse_jid(text) == jid


@pytest.mark.parametrize(
    "text",
    ["", "ann", "@demo", "ann@", "ann@demo@x", "a/b@demo", "a<@demo", "ann@de'mo", "ann@demo/a/b"],
)
def test_what_is_no_jid_is_told_apart(text: str) -> None:
    assert parse_jid(text) is None


@given(st.text(min_size=1), st.text(min_size=1), st.none() | st.just("s1"))
def test_every_user_id_and_hub_has_a_jid(user: str, domain: str, resource: str | None) -> None:
    jid = Jid(user, domain, resource)
    assert parse_jid(str(jid)) == jid


@pytest.mark.parametrize("text", ["news", "#news", "#news@demo"])
def test_the_three_forms_of_a_channel_id_mean_the_same_channel(text: str) -> None:
    assert parse_channel(text, "demo") == "news"
    assert channel_id("news", "demo") == "#news@demo"


def test_spaces_are_fine_and_a_name_with_a_domain_but_no_hash_is_a_user() -> None:
    assert parse_channel("a b c", "demo") == "a b c"
    assert parse_target("news@demo", "demo") == Jid("news", "demo")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("#news@elsewhere", Status.NOT_AVAILABLE),
        ("news@demo", Status.NOT_AVAILABLE),
        ("#", Status.INVALID),
        ("#news@", Status.INVALID),
        ("#a#b", Status.INVALID),
        ("#a@b@c", Status.INVALID),
        ("a/b", Status.INVALID),
        ("a<b", Status.INVALID),
        ("a*", Status.INVALID),
        ("x" * 256, Status.INVALID),
        ("#hAdminChannel@demo", Status.INVALID),
        ("hChannelAdmin", Status.INVALID),
        ("#doc:plan", Status.INVALID),
        ("notification:x", Status.INVALID),
        ("u:ann", Status.INVALID),
        ("news.dead", Status.INVALID),
    ],
)
def test_other_channel_ids_are_refused_with_their_status(text: str, status: Status) -> None:
    with pytest.raises(CommandRefused) as refused:
        parse_channel(text, "demo")
    assert refused.value.status is status
    assert text[:20] in refused.value.text
