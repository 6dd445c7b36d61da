"""Counters of webhooks, kept as plain integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hubbub.domain.webhooks import DrivenKind
from hubbub.engine.counters import Durations
from hubbub.engine.webhooks.driven import DrivenWebhook


@dataclass(slots=True, eq=False)
class PushCounters:
    """Counters of a hub's webhooks since the start of the process."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """Requests by outcome: `ok`, the reason why there was no response, or the class of an
    unsuccessful status, such as `5xx`."""
    fetches: Counter[str] = field(default_factory=Counter)
    """Fetches of external topics by outcome: `new`, `same`, `nobody` (no subscribers) or the reason
    of the failure; the last failure is also counted as `given_up`."""
    answered: Durations = field(default_factory=Durations)
    """Requests that delivered their message."""
    failed: Durations = field(default_factory=Durations)
    """Requests that did not deliver their message."""
    dead_letters: int = 0
    ended: int = 0
    """Webhooks ended by the receiver or by expiry."""


@dataclass(slots=True, eq=False)
class HubWebhooks:
    """The current state of a hub's webhooks, as counts."""

    kinds: Counter[DrivenKind] = field(default_factory=Counter)
    sending: int = 0
    """Webhooks with a request in progress."""
    waiting: int = 0
    """Webhooks with a message that waits for its turn or its next attempt."""


def survey(driven_webhooks: Iterable[DrivenWebhook]) -> dict[str, HubWebhooks]:
    """Counts by hub."""
    found: dict[str, HubWebhooks] = {}
    for driven in driven_webhooks:
        webhook = driven.webhook
        hub = found.get(webhook.hub)
        if hub is None:
            hub = found[webhook.hub] = HubWebhooks()
        hub.kinds[webhook.kind] += 1
        if driven.sending:
            hub.sending += 1
        elif driven.task is not None:
            hub.waiting += 1
    return found
