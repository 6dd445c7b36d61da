"""What both encodings check of a call and of an event for a stream."""

from __future__ import annotations

import math

from hubbub.domain.errors import Malformed
from hubbub.domain.requests import Call, Enqueue
from hubbub.protocols.envelopes import check_event_name


def check_call(request: Call) -> Call:
    seconds = request.timeout_seconds
    if not math.isfinite(seconds) or seconds < 0:
        raise Malformed(f"RPC: `timeout` is {seconds}; expected seconds, or none")
    return request


def check_enqueue(request: Enqueue) -> Enqueue:
    check_event_name(request.event)
    return request
