"""What a schema cannot say to schemathesis: which time zones there are, that a time that ends
before it begins is refused, and that adapters that tests declare fail where they are told to."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

import schemathesis
from hypothesis import strategies as st

schemathesis.openapi.format("time-zone", st.sampled_from(sorted(available_timezones())))

_JOINED = ("traffic", "activity")
"""Tables whose rows can be joined to longer steps; for others `step` is a `bad_request`."""


@schemathesis.hook
def filter_case(context: Any, case: schemathesis.Case[Any]) -> bool:
    """`queryMessages` answers `bad_request` to such a time, as the contract says. Which parameters
    a table of the analytics takes depends on the table."""
    if case.operation.path.endswith("/analytics/{table}") and "step" in (case.query or ()):
        return case.path_parameters["table"] in _JOINED
    if case.operation.path == "/v1/admin/hubs/{hub}/adapters/{adapter}":
        kind = case.body.get("kind") if isinstance(case.body, dict) else None
        return not (isinstance(kind, str) and kind.startswith("test-"))
    if case.operation.path != "/v1/admin/hubs/{hub}/messages":
        return True
    try:
        return int(case.query["since"]) <= int(case.query["until"])
    except (KeyError, TypeError, ValueError):
        return True
