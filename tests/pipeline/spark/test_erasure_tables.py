"""What upkeep of the journal means for the tables that are made of it."""

from __future__ import annotations

import pytest

from harness.journals import HOUR, NOON, message, seal
from harness.segments import Pipeline
from hubbub.journal.compaction import compact
from hubbub.journal.erasure import erase
from hubbub.journal.retention import prune

pytestmark = pytest.mark.spec("PIPE-05")


def test_the_next_run_makes_the_touched_hours_without_the_user(pipeline: Pipeline) -> None:
    journal = pipeline.journal
    seal(journal, message(1), message(2, "bob"))
    seal(journal, message(3, "bob"), message(7200, "bob"))
    pipeline.run()
    proof, _ = erase(journal, "demo", "ann")
    assert [changed.hours for changed in proof.changed] == [("2025-11-15T12",)]
    assert pipeline.run().retracted == 1
    rows = pipeline.rows("messages")
    assert [row["message_id"] for row in rows] == ["m1", "m2", "m3", "m7200"]
    assert (rows[0]["payload"], rows[0]["size"]) == (None, 6)
    assert rows[0]["user"].startswith("erased-")
    assert [row["user"] for row in rows[1:]] == ["bob"] * 3
    assert "ann" not in str(pipeline.everything()).replace("channel", "")


@pytest.mark.long
def test_compaction_and_retention_leave_the_tables_as_they_are(pipeline: Pipeline) -> None:
    journal = pipeline.journal
    for number in (1, 2, 3):
        seal(journal, message(number))
    pipeline.run()
    before = [(row["message_id"], row["payload"], row["at"]) for row in pipeline.rows("messages")]
    compact(journal, grace_seconds=0)
    pipeline.run()
    after = [(row["message_id"], row["payload"], row["at"]) for row in pipeline.rows("messages")]
    assert after == before
    prune(journal, 60, now=(NOON + HOUR) / 1e6)
    assert not list((journal / "sealed").glob("*.parquet"))
    assert pipeline.run().retracted == 0
    assert len(pipeline.rows("messages")) == 3
