"""Success rates of adapters, webhooks and delivery policies."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import WEBHOOK_ATTEMPT
from hubbub.pipeline import spreads
from hubbub.pipeline.columns import days, ones, schema, with_columns
from hubbub.pipeline.grouping import Groups, Integers
from hubbub.pipeline.views.view import Sources, view

_NAMED_FROM = "kind hub adapter policy technology message_id peer subscription outcome at"
_ADAPTER = ("hub", "adapter", "policy", "day")
_DELIVERY = ("_place", "message_id", "target")
_POLICY = ("hub", "policy", "day")
_VERDICT = (*_POLICY, "message_id", "receiver")


@view(
    schema(
        "text hub adapter policy, whole attempts attempts_ok deliveries delivered",
        "whole delivered_at_once, real success, text usual_failure",
        spreads.fields("duration"),
        "text day",
    ),
    "day",
    attempts=f"{_NAMED_FROM} attempt reason duration",
)
def adapter_success(sources: Sources) -> pa.Table:
    """A delivery is one message to one peer or subscription. It is delivered if any attempt of the
    day succeeded, and at once if the first one did. Webhooks count as an adapter `webhook`."""
    attempts = named(sources["attempts"])
    ok = pc.equal(attempts["outcome"], "ok")
    places = Groups(attempts, _ADAPTER)
    totals = {"attempts": ones(attempts), "attempts_ok": ok.cast(pa.int64())}
    times = spreads.added(
        spreads.of_each(attempts, "duration", "duration"), places, "duration", totals
    )
    each = _deliveries(attempts.append_column("_place", pa.array(places.ids)), ok)
    place: Integers = each["_place"].to_numpy()
    count = np.bincount(place, minlength=len(places))
    delivered, at_once = (
        np.bincount(place, _is(each[name]), len(places)) for name in ("delivered", "at_once")
    )
    more = {
        "deliveries": pa.array(count),
        "delivered": pa.array(delivered),
        "delivered_at_once": pa.array(at_once),
        "success": pa.array(delivered / count),
        "usual_failure": usual(place, each["failure"], len(places)),
    }
    return spreads.described(with_columns(times, **more), "duration")


def named(attempts: pa.Table) -> pa.Table:
    """Adds the adapter's name (also for webhooks), the target of the delivery, and the day."""
    webhook = pc.if_else(
        pc.fill_null(pc.equal(attempts["kind"], WEBHOOK_ATTEMPT), False),
        "webhook",
        pa.scalar(None, pa.string()),
    )
    adapter = pc.coalesce(attempts["adapter"], webhook, attempts["technology"])
    target = pc.coalesce(attempts["peer"], attempts["subscription"], "")
    return with_columns(attempts, adapter=adapter, target=target, day=days(attempts["at"]))


def _deliveries(attempts: pa.Table, ok: pa.ChunkedArray) -> pa.Table:
    """Adds the index of the adapter, the result, and the most frequent failure."""
    first = pc.equal(pc.fill_null(attempts["attempt"], 1), 1)
    groups = Groups(attempts, _DELIVERY)
    each = groups.added({"delivered": (ok, "any"), "at_once": (pc.and_kleene(ok, first), "any")})
    failed = pc.fill_null(pc.invert(ok), False)
    failure = pc.coalesce(attempts["reason"], attempts["outcome"]).filter(failed)
    of_failed = groups.ids[failed.to_numpy()]
    return each.append_column("failure", usual(of_failed, failure, len(groups)))


def usual(groups: Integers, words: pa.ChunkedArray, count: int) -> pa.Array:
    """The most frequent word of each group; on a tie, the first in alphabetical order."""
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


@view(
    schema("text hub policy, whole deliveries met failed timed_out, real success, text day"),
    "day",
    verdicts="hub message_id receiver policy outcome at segment offset",
)
def policy_success(sources: Sources) -> pa.Table:
    """Verdicts on messages to peers and collectives. After a crash a verdict may be in the journal
    twice: the last one counts."""
    verdicts = sources["verdicts"]
    order = [(name, "descending") for name in ("at", "segment", "offset")]
    verdicts = verdicts.sort_by(order)
    verdicts = with_columns(verdicts, day=days(verdicts["at"]))
    each = Groups(verdicts, _VERDICT).added({"outcome": (verdicts["outcome"], "first")})
    counts = {
        name: (pc.fill_null(pc.equal(each["outcome"], name), False).cast(pa.int64()), "sum")
        for name in ("met", "failed", "timed_out")
    }
    found = Groups(each, _POLICY).added({"deliveries": (ones(each), "sum"), **counts})
    success = pc.divide(found["met"].cast(pa.float64()), found["deliveries"].cast(pa.float64()))
    return found.append_column("success", success)
