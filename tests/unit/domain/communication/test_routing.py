"""Routing rules against a plain model, and the corrections of algorithm 2.2."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.routing import RoutingIndex, RoutingRule, rule_problem

names = st.sampled_from(["", "a", "b", "c"])
rules = st.builds(
    RoutingRule,
    route=st.lists(st.sampled_from(["ann", "bob", "collective:x", "component:y"]), min_size=1).map(
        tuple
    ),
    type=names,
    subtype=names,
    receiver=names,
    sender=names,
)
messages = st.builds(
    PeerMessage, type=names, subtype=names, receiver=names, sender=names, id=st.just("m")
)


def plainly(rule: RoutingRule, message: PeerMessage) -> bool:
    return all(
        not wanted or wanted == found
        for wanted, found in (
            (rule.type, message.type),
            (rule.subtype, message.subtype),
            (rule.receiver, message.receiver),
            (rule.sender, message.sender),
        )
    )


@pytest.mark.spec("COMM-04")
@given(st.lists(rules, max_size=12), messages)
def test_the_index_finds_the_routes_of_all_rules_that_match(
    given_rules: list[RoutingRule], message: PeerMessage
) -> None:
    expected = {
        receiver for rule in given_rules if plainly(rule, message) for receiver in rule.route
    }
    found = RoutingIndex(given_rules).routes(message)
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.mark.spec("COMM-04")
@given(st.lists(rules, max_size=12), messages)
def test_the_named_receiver_comes_first_and_nobody_comes_twice(
    given_rules: list[RoutingRule], message: PeerMessage
) -> None:
    receivers = RoutingIndex(given_rules).receivers(message)
    assert len(set(receivers)) == len(receivers)
    if message.receiver:
        assert receivers[0] == message.receiver


@pytest.mark.spec("COMM-04")
def test_an_absent_field_of_the_message_matches_only_an_absent_field_of_the_rule() -> None:
    index = RoutingIndex([RoutingRule(("ann",), type="t", receiver="bob")])
    assert index.routes(PeerMessage(type="t", subtype="s")) == ()


@pytest.mark.spec("COMM-14")
@pytest.mark.parametrize(
    "rule",
    [
        RoutingRule(("assistant",), receiver="ann"),
        RoutingRule(("assistant",), sender="component:AuthenticationManager"),
        RoutingRule(("collective:all",), subtype="REPLY"),
        RoutingRule(("component:spy",), type="AUTH"),
        RoutingRule(("assistant",), type="CONTROL"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "subtype"),
    [("AUTH", "REPLY"), ("AUTH", "FAILED"), ("CONTROL", "ACK"), ("CONTROL", "ERROR")],
)
def test_reports_and_answers_to_logins_reach_their_receiver_alone(
    rule: RoutingRule, kind: str, subtype: str
) -> None:
    sender = "component:AuthenticationManager"
    message = PeerMessage(type=kind, subtype=subtype, receiver="ann", sender=sender)
    assert RoutingIndex([rule]).receivers(message) == ("ann",)


@pytest.mark.spec("COMM-14")
@pytest.mark.parametrize(
    ("kind", "subtype", "expected"),
    [("CONTROL", "ERROR", ("desk",)), ("CONTROL", "ACK", ()), ("AUTH", "REPLY", ())],
)
def test_of_what_the_hub_says_to_nobody_only_a_fault_follows_rules(
    kind: str, subtype: str, expected: tuple[str, ...]
) -> None:
    index = RoutingIndex([RoutingRule(("desk",), sender="component:mail")])
    message = PeerMessage(type=kind, subtype=subtype, sender="component:mail")
    assert index.receivers(message) == expected


@pytest.mark.spec("COMM-04")
@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (RoutingRule((), type="t"), "route"),
        (RoutingRule(("collective:",), type="t"), "route"),
        (RoutingRule(("ann",)), "type"),
        (RoutingRule(("ann",), sender="desk"), None),
    ],
)
def test_a_rule_without_a_route_or_a_condition_is_refused(
    rule: RoutingRule, problem: str | None
) -> None:
    found = rule_problem(rule)
    assert (found and found[0]) == problem


@pytest.mark.spec("COMM-04")
def test_ten_thousand_rules_cost_a_message_less_than_20_microseconds() -> None:
    shapes = [dict(zip("tr", pair, strict=True)) for pair in (("1", ""), ("", "1"), ("1", "1"))]
    index = RoutingIndex(
        RoutingRule(
            (f"peer{n}",),
            type=f"type{n}" if shapes[n % 3]["t"] else "",
            receiver=f"receiver{n}" if shapes[n % 3]["r"] else "",
            sender=f"sender{n}" if n % 2 else "",
            subtype="s" if n % 5 == 0 else "",
        )
        for n in range(10_000)
    )
    message = PeerMessage(type="type3", subtype="s", receiver="receiver1", sender="sender3")
    assert "peer3" in index.receivers(message)
    took = min(_seconds(index, message) for _ in range(5))
    assert took < 20e-6


def _seconds(index: RoutingIndex, message: PeerMessage) -> float:
    began = perf_counter()
    for _ in range(1000):
        index.receivers(message)
    return (perf_counter() - began) / 1000
