"""How often adapters and webhooks get their messages through."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import WEBHOOK_ATTEMPT
from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.columns import REAL, TEXT, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups, Integers

SCHEMA = with_fields(
    schema(
        hub=TEXT,
        adapter=TEXT,
        policy=TEXT,
        attempts=WHOLE,
        attempts_ok=WHOLE,
        deliveries=WHOLE,
        delivered=WHOLE,
        delivered_at_once=WHOLE,
        success=REAL,
        usual_failure=TEXT,
    ),
    histograms.fields("duration"),
    schema(day=TEXT),
)
NAMED_FROM = (
    "kind",
    "hub",
    "adapter",
    "policy",
    "technology",
    "message_id",
    "peer",
    "subscription",
)
"""What `named` needs of an attempt, and what tells messages apart."""
_KEYS = ("hub", "adapter", "policy")
_DELIVERY = ("_place", "message_id", "target")


def compute(sources: Mapping[str, pa.Table], _day: str) -> pa.Table:
    """A delivery is one message to one peer or subscription. It is delivered if any attempt of
    the day went well, at once if the first one did. Webhooks count as an adapter `webhook`."""
    attempts = named(sources["attempts"])
    ok = pc.equal(attempts["outcome"], "ok")
    places = Groups(attempts, _KEYS)
    totals = {"attempts": pa.repeat(1, len(attempts)), "attempts_ok": ok.cast(pa.int64())}
    times = spreads.added(
        spreads.of_each(attempts, "duration", "duration"), places, "duration", totals
    )
    each = _deliveries(attempts.append_column("_place", pa.array(places.ids)), ok)
    place: Integers = each["_place"].to_numpy()
    count = np.bincount(place, minlength=len(places))
    delivered = np.bincount(place, _is(each["delivered"]), len(places)).astype(np.int64)
    more = {
        "deliveries": pa.array(count),
        "delivered": pa.array(delivered),
        "delivered_at_once": pa.array(
            np.bincount(place, _is(each["at_once"]), len(places)).astype(np.int64)
        ),
        "success": pa.array(delivered / count),
        "usual_failure": usual(place, each["failure"], len(places)),
    }
    for name, column in more.items():
        times = times.append_column(name, column)
    return spreads.described(times, "duration")


def named(attempts: pa.Table) -> pa.Table:
    """With the adapter's name where it is a webhook, and the target that a delivery went to."""
    webhook = pc.if_else(
        pc.fill_null(pc.equal(attempts["kind"], WEBHOOK_ATTEMPT), False),
        "webhook",
        pa.scalar(None, pa.string()),
    )
    adapter = pc.coalesce(attempts["adapter"], webhook, attempts["technology"])
    place = attempts.schema.get_field_index("adapter")
    target = pc.coalesce(attempts["peer"], attempts["subscription"], "")
    return attempts.set_column(place, "adapter", adapter).append_column("target", target)


def _deliveries(attempts: pa.Table, ok: pa.ChunkedArray) -> pa.Table:
    """With the place of its adapter among all, whether it went well, and how it usually failed."""
    first = pc.equal(pc.fill_null(attempts["attempt"], 1), 1)
    groups = Groups(attempts, _DELIVERY)
    each = groups.added({"delivered": (ok, "any"), "at_once": (pc.and_kleene(ok, first), "any")})
    failed = pc.fill_null(pc.invert(ok), False)
    failure = pc.coalesce(attempts["reason"], attempts["outcome"]).filter(failed)
    of_failed = groups.ids[failed.to_numpy()]
    return each.append_column("failure", usual(of_failed, failure, len(groups)))


def usual(groups: Integers, words: pa.ChunkedArray, count: int) -> pa.Array:
    """The word that each group has most often; of several the first by the alphabet."""
    said = pc.is_valid(words).to_numpy()
    codes = words.filter(pa.array(said)).combine_chunks().dictionary_encode()
    known = codes.dictionary
    rank = np.empty(len(known), np.int64)
    order = pc.sort_indices(known).to_numpy()
    rank[order] = np.arange(len(known))
    pairs, times = np.unique(
        groups[said] * max(len(known), 1) + rank[codes.indices.to_numpy()], return_counts=True
    )
    group = pairs // max(len(known), 1)
    best = np.lexsort((pairs, -times, group))
    chosen = best[np.unique(group[best], return_index=True)[1]]
    word = np.full(count, -1)
    word[group[chosen]] = order[pairs[chosen] % max(len(known), 1)]
    return known.take(pa.array(word, mask=word < 0))


def _is(column: pa.ChunkedArray) -> Integers:
    found: Integers = pc.fill_null(column, False).cast(pa.int64()).to_numpy()
    return found


TABLE = arrow_table(
    "adapter_success",
    SCHEMA,
    {
        "attempts": (
            *NAMED_FROM,
            "attempt",
            "outcome",
            "reason",
            "duration",
        )
    },
    compute,
    key=("hub", "adapter", "policy", "day"),
)
