"""Counters of webhooks, as plain numbers that cost next to nothing to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hubbub.domain.webhooks import DrivenKind
from hubbub.engine.counters import Durations
from hubbub.engine.webhooks.push import Push


@dataclass(slots=True, eq=False)
class PushCounters:
    """Of the webhooks of a hub, since the start of the process."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Requests by what became of them: `ok`, why there was no answer, or the kind of status that
    was none of success, such as `5xx`."""
    fetches: Counter[str] = field(default_factory=Counter)
    """Fetches of topics that live elsewhere, by what became of them: `new`, `same`, `nobody` (is
    subscribed), why they failed, and `given_up` once more for the last of those."""
    answered: Durations = field(default_factory=Durations)
    """Requests that brought their message there."""
    failed: Durations = field(default_factory=Durations)
    """Requests that did not."""
    dead_letters: int = 0
    ended: int = 0
    """Webhooks that the receiver or the time put an end to."""


@dataclass(slots=True, eq=False)
class HubPushes:
    """The webhooks of a hub as they are now."""

    kinds: Counter[DrivenKind] = field(default_factory=Counter)
    sending: int = 0
    """Those with a request under way."""
    waiting: int = 0
    """Those with a message that waits for its turn or its next try."""


def survey(pushes: Iterable[Push]) -> dict[str, HubPushes]:
    """By hub."""
    found: dict[str, HubPushes] = {}
    for push in pushes:
        webhook = push.webhook
        hub = found.get(webhook.hub)
        if hub is None:
            hub = found[webhook.hub] = HubPushes()
        hub.kinds[webhook.kind] += 1
        if push.sending:
            hub.sending += 1
        elif push.task is not None:
            hub.waiting += 1
    return found
