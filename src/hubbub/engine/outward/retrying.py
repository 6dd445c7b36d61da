"""Decides when a failed webhook request or fetch is retried, and when it is given up."""

from __future__ import annotations

from hubbub.domain.webhooks import retry_delay
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.ports import randomness
from hubbub.ports.outgoing import HttpResponse

_LATER = (408, 425, 429)
"""Statuses below 500 after which a later request may succeed."""


class GivenUp(Exception):
    """The request failed for too long, or too often."""


def pause_seconds(
    limits: WebhookLimits,
    attempts: int,
    status: int | None,
    retry_after_seconds: float,
    left_seconds: float,
) -> float:
    """The pause after this many attempts, the last of which got this status (None: no response).
    Raises `GivenUp` after the last permitted attempt, or if the pause exceeds `left_seconds`."""
    most = limits.retries
    if _is_refusal(status):
        most = min(most, limits.refused_retries)
    if attempts > most:
        raise GivenUp
    own = retry_delay(
        attempts, randomness.fraction(), limits.first_retry_seconds, limits.longest_retry_seconds
    )
    seconds = max(own, min(retry_after_seconds, limits.longest_retry_seconds))
    if seconds > left_seconds:
        raise GivenUp
    return seconds


def retry_after_seconds(answer: HttpResponse | None, now: float) -> float:
    """The delay that the response asks for; 0 without one. `now` is in seconds since 1970."""
    return answer.retry_after_seconds(now) if answer is not None else 0.0


def _is_refusal(status: int | None) -> bool:
    """Whether the server rejected the request itself."""
    return status is not None and 300 <= status < 500 and status not in _LATER
