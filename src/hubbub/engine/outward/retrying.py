"""When a request that failed is tried again, and when it is given up: of webhooks and fetches."""

from __future__ import annotations

import random

from hubbub.domain.webhooks import retry_delay
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.ports.outgoing import HttpResponse

_LATER = (408, 425, 429)
"""Statuses below 500 that say that it is only too early."""


class GivenUp(Exception):
    """The request failed for too long, or too often."""


def pause_seconds(
    limits: WebhookLimits,
    attempts: int,
    status: int | None,
    retry_after_seconds: float,
    left_seconds: float,
) -> float:
    """How long to wait after so many attempts, the last of which got this status (None: no answer).
    Raises `GivenUp` where there were enough, or `left_seconds` do not suffice."""
    most = limits.retries
    if _is_refusal(status):
        most = min(most, limits.refused_retries)
    if attempts > most:
        raise GivenUp
    own = retry_delay(
        attempts, random.random(), limits.first_retry_seconds, limits.longest_retry_seconds
    )
    seconds = max(own, min(retry_after_seconds, limits.longest_retry_seconds))
    if seconds > left_seconds:
        raise GivenUp
    return seconds


def retry_after_seconds(answer: HttpResponse | None, now: float) -> float:
    """How long the server wants to be left alone; 0 where it did not say. `now` is in seconds since
    1970."""
    return answer.retry_after_seconds(now) if answer is not None else 0.0


def _is_refusal(status: int | None) -> bool:
    """Whether the server is there and says that the request is wrong."""
    return status is not None and 300 <= status < 500 and status not in _LATER
