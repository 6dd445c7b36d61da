"""Dry runs of rule changes: their effect on current subscriptions."""

from __future__ import annotations

import msgspec

from hubbub.domain.asking import NodeRequest
from hubbub.domain.fields import wire_name
from hubbub.domain.permissions import may_stay
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.engine.administration.lists import SLICE, pause
from hubbub.engine.hub import Hub

_MOST_CHECKS = 50_000
_CHECKS_IN_A_TURN = 500
"""One check takes 3 microseconds. A session may follow 10,000 channels."""
_SESSIONS_IN_A_TURN = 200
_MOST_EXAMPLES = 10


class RulesEffect(msgspec.Struct, frozen=True, rename=wire_name):
    """The effect of rules: `channels` that use them and are followed by sessions, their
    `subscriptions`, and how many of these would end (`losing`), among the first 50,000 checked per
    node (`checked`). `examples` names some of the channels."""

    channels: int = 0
    subscriptions: int = 0
    checked: int = 0
    losing: int = 0
    examples: list[str] = []


class TryRules(NodeRequest[RulesEffect], frozen=True, tag="try-rules"):
    hub: str
    name: str
    rules: Rules


async def effect_on(hub: Hub, question: TryRules) -> RulesEffect:
    """The effect on one node."""
    before = hub.configuration
    after = changed(before, question)
    touched: dict[str, int] = {}
    feeds = list(hub.feeds.values())
    for at in range(0, len(feeds), SLICE // 8):
        for feed in feeds[at : at + SLICE // 8]:
            if before.source_of(feed.channel)[1] == question.name:
                touched[feed.channel] = feed.subscribers
        await pause()
    checked = losing = 0
    sessions = list(hub.sessions.values()) if touched else []
    for number, session in enumerate(sessions):
        if checked >= _MOST_CHECKS:
            break
        if number % _SESSIONS_IN_A_TURN == _SESSIONS_IN_A_TURN - 1:
            await pause()
        for channel in (session.feeds or {}).keys() & touched.keys():
            checked += 1
            rules = after.rules_for(channel)
            losing += not may_stay(session.reader, channel, after, rules)
            if checked % _CHECKS_IN_A_TURN == 0:
                await pause()
    examples = sorted(touched)[:_MOST_EXAMPLES]
    return RulesEffect(len(touched), sum(touched.values()), checked, losing, examples)


def changed(configuration: HubConfiguration, question: TryRules) -> HubConfiguration:
    rules = {**configuration.rules, question.name: question.rules}
    return msgspec.structs.replace(configuration, rules=rules)


def added(effects: list[RulesEffect]) -> RulesEffect:
    """The effect on all nodes; a channel that several nodes follow counts once per node."""
    return RulesEffect(
        channels=sum(each.channels for each in effects),
        subscriptions=sum(each.subscriptions for each in effects),
        checked=sum(each.checked for each in effects),
        losing=sum(each.losing for each in effects),
        examples=sorted({name for each in effects for name in each.examples})[:_MOST_EXAMPLES],
    )
