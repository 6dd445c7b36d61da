"""Delivery policies against a plain model: one verdict, whatever comes in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.communication.peers import Address, CollectivePolicy, PeerPolicy
from hubbub.domain.communication.policies import (
    CollectiveProgress,
    DeliveryVerdict,
    PeerProgress,
    choose_addresses,
)

peer_policies = st.sampled_from(["TO_ALL_CHANNELS", "AT_LEAST_ONE", "IN_ORDER"])
outcomes = st.lists(st.booleans(), min_size=1, max_size=6)
MET = DeliveryVerdict("met")
FAILED = DeliveryVerdict("failed", "no")


def peer_model(policy: PeerPolicy, results: list[bool], expected: int) -> str | None:
    """The verdict after these outcomes, decided at once from all of them."""
    for heard in range(1, len(results) + 1):
        so_far = results[:heard]
        if policy == "TO_ALL_CHANNELS":
            if not all(so_far):
                return "failed"
            if len(so_far) == expected:
                return "met"
        elif any(so_far):
            return "met"
        elif len(so_far) == expected:
            return "failed"
    return None


@pytest.mark.spec("COMM-05")
@given(peer_policies, outcomes, st.data())
def test_a_peer_gets_one_verdict_that_follows_from_the_outcomes(
    policy: PeerPolicy, results: list[bool], data: st.DataObject
) -> None:
    progress = PeerProgress(policy, len(results))
    verdicts = []
    for number, arrived in enumerate(results):
        for _ in range(data.draw(st.integers(1, 3))):  # an outcome may be told again
            verdict = progress.feed(str(number), None if arrived else f"reason {number}")
            verdicts += [verdict] if verdict is not None else []
    assert [verdict.result for verdict in verdicts] == [peer_model(policy, results, len(results))]
    assert progress.verdict == verdicts[0]


@pytest.mark.spec("COMM-05")
@given(st.sampled_from(["TO_ALL_MEMBERS", "TO_ANY", "IN_ORDER"]), outcomes)
def test_a_collective_gets_one_verdict_that_follows_from_its_members(
    policy: CollectivePolicy, results: list[bool]
) -> None:
    progress = CollectiveProgress(policy, len(results))
    verdicts = []
    for number, met in enumerate(results * 2):  # each member is told twice
        verdict = progress.feed(str(number % len(results)), MET if met else FAILED)
        verdicts += [verdict] if verdict is not None else []
    all_or_any = all if policy == "TO_ALL_MEMBERS" else any
    assert [v.result for v in verdicts] == ["met" if all_or_any(results) else "failed"]


@pytest.mark.spec("COMM-05")
def test_at_least_one_fails_only_when_every_channel_failed_and_says_all_reasons() -> None:
    progress = PeerProgress("AT_LEAST_ONE", 2)
    assert progress.feed("mail", "no such mailbox") is None
    assert progress.feed("chat", "room closed") == DeliveryVerdict(
        "failed", "no such mailbox; room closed"
    )


@pytest.mark.spec("COMM-05")
def test_preferred_reports_its_failure_and_does_not_fall_through() -> None:
    progress = PeerProgress("PREFERRED", 1)
    assert progress.feed("mail", "no such mailbox") == DeliveryVerdict("failed", "no such mailbox")


@pytest.mark.spec("COMM-05")
def test_an_empty_collective_has_failed_from_the_beginning() -> None:
    progress = CollectiveProgress("TO_ANY", 0)
    assert progress.verdict == DeliveryVerdict("failed", "the collective is empty", tried=False)


MAIL, CHAT, OTHER_MAIL = (
    Address("mail", ("a@x",)),
    Address("chat", ("#a",)),
    Address("mail", ("b",)),
)


@pytest.mark.spec("COMM-02", "COMM-05")
@pytest.mark.parametrize(
    ("policy", "usable", "chosen"),
    [
        ("TO_ALL_CHANNELS", ["mail", "chat"], [MAIL, CHAT, OTHER_MAIL]),
        ("TO_ALL_CHANNELS", ["chat"], [CHAT]),
        ("AT_LEAST_ONE", ["mail"], [MAIL, OTHER_MAIL]),
        ("PREFERRED", ["mail", "chat"], [MAIL]),
        ("PREFERRED", ["chat"], [CHAT]),
        ("PREFERRED", [], []),
    ],
)
def test_addresses_are_chosen_in_order_among_adapters_that_exist(
    policy: PeerPolicy, usable: list[str], chosen: list[Address]
) -> None:
    addresses = [MAIL, CHAT, OTHER_MAIL, MAIL]
    assert choose_addresses(addresses, policy, lambda each: each.adapter in usable) == chosen
