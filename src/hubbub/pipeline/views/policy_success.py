"""How often delivery policies were met: over all adapters that a message to a peer took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.adapter_success import NAMED_FROM, named
from hubbub.pipeline.views.columns import REAL, TEXT, WHOLE, ones, schema
from hubbub.pipeline.views.view import View

SCHEMA = schema(
    hub=TEXT, policy=TEXT, deliveries=WHOLE, met=WHOLE, failed=WHOLE, success=REAL, day=TEXT
)
NEEDS_ALL = ("TO_ALL_CHANNELS", "TO_ALL_MEMBERS", "TO_ALL")
NEEDS_FIRST = ("PREFERRED",)
_KEYS = ("hub", "policy", "day")
_MESSAGE = (*_KEYS, "message_id", "target")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """A policy that names all needs every adapter to succeed, PREFERRED the one that was tried
    first, any other one adapter at least. Attempts without a policy are not counted here."""
    attempts = sources["attempts"]
    attempts = named(attempts.filter(pc.is_valid(attempts["policy"])))
    attempts = attempts.sort_by([(name, "ascending") for name in ("at", "segment", "offset")])
    messages = Groups(attempts, _MESSAGE)
    attempts = attempts.append_column("_message", pa.array(messages.ids))
    tried = Groups(attempts, ("_message", "adapter"))
    ok = tried.added({"ok": (pc.equal(attempts["outcome"], "ok"), "any")})["ok"]
    ids = tried.keys["_message"].to_numpy()
    # The adapter of a message's first attempt.
    first = np.zeros(len(messages), np.int64)
    first[messages.ids[::-1]] = tried.ids[::-1]
    by_message = pa.table({"_": ids, "all": ok, "any": ok}).group_by("_", use_threads=False)
    each = by_message.aggregate([("all", "all"), ("any", "any")]).sort_by("_")
    rule = pc.utf8_upper(messages.keys["policy"])
    needs_first = pc.is_in(rule, pa.array(NEEDS_FIRST))
    met = pc.if_else(
        pc.is_in(rule, pa.array(NEEDS_ALL)),
        each["all_all"],
        pc.if_else(needs_first, ok.take(pa.array(first)), each["any_any"]),
    )
    found = Groups(messages.keys, _KEYS).added(
        {
            "deliveries": (ones(messages.keys), "sum"),
            "met": (pc.fill_null(met, False).cast(pa.int64()), "sum"),
            "failed": (pc.fill_null(pc.invert(met), False).cast(pa.int64()), "sum"),
        }
    )
    success = pc.divide(found["met"].cast(pa.float64()), found["deliveries"].cast(pa.float64()))
    return found.append_column("success", success)


VIEW = View(
    "policy_success",
    SCHEMA,
    {"attempts": (*NAMED_FROM, "segment", "offset")},
    compute,
    key=_KEYS,
    reach="day",
)
