"""Routing rules: further receivers of a message, besides the one that it names.

A rule gives values for some of (type, subtype, receiver, sender); an omitted field matches
anything. All matching rules apply. The rules of a hub are compiled into an index: a message costs
at most 15 lookups, however many rules there are.

Reports and login responses are never routed: a copy of a login response would let its receiver
impersonate the peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from hubbub.domain.communication.messages import (
    AUTH,
    CONTROL,
    ERROR,
    MAX_TEXT,
    MESSAGEINFO,
    STRANGER,
    PeerMessage,
    name_of,
)
from hubbub.domain.setting import Setting

_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Receiver = Annotated[
    str,
    Meta(
        max_length=MAX_TEXT,
        extra_json_schema={"minLength": 1, "pattern": "^((collective|component):)?[^:]+$"},
    ),
]
_Key = tuple[str | None, str | None, str | None, str | None]


class RoutingRule(Setting, frozen=True):
    """Further receivers for matching messages. An empty field matches anything; at least one of the
    four must be given."""

    route: Annotated[tuple[_Receiver, ...], Meta(min_length=1, max_length=1000)]
    """The receivers: peers, `collective:x` or `component:x`."""
    type: _Text = ""
    subtype: _Text = ""
    receiver: _Text = ""
    sender: _Text = ""


def rule_problem(rule: RoutingRule) -> tuple[str, str] | None:
    """Returns key and problem of a rule without a route or without a condition; None if it is
    valid."""
    if not rule.route or not all(map(name_of, rule.route)):
        return "route", "names no receiver, or one without a name; give at least one"
    if any(each.startswith(STRANGER) for each in rule.route):
        return "route", "names a stranger; strangers are only answered"
    if not any(_fields(rule)):
        return "type", "is missing, and so are subtype, receiver and sender; give at least one"
    return None


class RoutingIndex:
    """The rules of a hub, indexed by the fields that they match."""

    __slots__ = ("_by_shape",)

    def __init__(self, rules: Iterable[RoutingRule]) -> None:
        shapes: dict[tuple[bool, ...], dict[_Key, dict[str, None]]] = {}
        for rule in rules:
            fields = _fields(rule)
            shape = tuple(map(bool, fields))
            key = tuple(text or None for text in fields)
            found = shapes.setdefault(shape, {}).setdefault(key, {})  # type: ignore[arg-type]
            found.update(dict.fromkeys(rule.route))
        self._by_shape: tuple[tuple[tuple[bool, ...], Mapping[_Key, tuple[str, ...]]], ...] = tuple(
            (shape, {key: tuple(route) for key, route in rules_of.items()})
            for shape, rules_of in shapes.items()
        )

    def routes(self, message: PeerMessage) -> tuple[str, ...]:
        """The receivers of all matching rules, without duplicates."""
        found: dict[str, None] = {}
        kind, subtype, receiver, sender = (
            message.type,
            message.subtype,
            message.receiver,
            message.sender,
        )
        for (by_type, by_subtype, by_receiver, by_sender), rules in self._by_shape:
            key = (
                kind if by_type else None,
                subtype if by_subtype else None,
                receiver if by_receiver else None,
                sender if by_sender else None,
            )
            route = rules.get(key)
            if route is not None:
                found.update(dict.fromkeys(route))
        return tuple(found)

    def receivers(self, message: PeerMessage) -> tuple[str, ...]:
        """All receivers without duplicates, the named one first. Empty: the message goes to
        callbacks."""
        routes = self.routes(message) if self._by_shape and _may_route(message) else ()
        if not message.receiver:
            return routes
        return (message.receiver, *(each for each in routes if each != message.receiver))


def _may_route(message: PeerMessage) -> bool:
    """Whether routing rules apply to the message. Among CONTROL and AUTH messages, they apply only
    to faults, which have no receiver."""
    if message.type == CONTROL:
        return message.subtype == ERROR and not message.receiver
    return message.type not in (AUTH, MESSAGEINFO)


def _fields(rule: RoutingRule) -> tuple[str, str, str, str]:
    return rule.type, rule.subtype, rule.receiver, rule.sender
