"""Compaction and retention of the journal: each event counts once, at every moment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.command import hubbub
from harness.journals import HOUR, NOON, counted, message, seal
from hubbub.domain.replacements import Replacement, current
from hubbub.journal.compaction import compact
from hubbub.journal.folder import JournalFolder
from hubbub.journal.parquet import SCHEMA
from hubbub.journal.retention import prune
from hubbub.journal.upkeep import UpkeepBusy, alone, replace

DAY = 24 * HOUR


def files(journal: Path) -> list[str]:
    return sorted(path.name for path in (journal / "sealed").glob("*.parquet"))


@pytest.mark.spec("PIPE-05")
def test_small_segments_become_one_with_the_same_events(tmp_path: Path) -> None:
    names = [seal(tmp_path, message(n), message(n + 1, headers={"a": "b"})) for n in (1, 3, 5)]
    before = counted(tmp_path)
    done = compact(tmp_path)
    assert (done.before, done.after, done.events, done.removed) == (3, 1, 6, 0)
    assert counted(tmp_path) == before
    (entry,) = JournalFolder(tmp_path).replacements()
    assert entry.reason == "compaction"
    assert sorted(entry.replaced) == sorted(names)
    assert set(names) < set(files(tmp_path))  # still there for who reads them
    assert JournalFolder(tmp_path).replaced() == set(names)
    table = pq.read_table(tmp_path / "sealed" / entry.by[0])
    assert table["offset"].to_pylist() == list(range(6))
    assert compact(tmp_path, grace_seconds=0).removed == 3
    assert files(tmp_path) == list(entry.by)
    assert counted(tmp_path) == before


@pytest.mark.spec("PIPE-05")
def test_large_segments_and_other_days_stay_apart(tmp_path: Path) -> None:
    seal(tmp_path, message(1))
    seal(tmp_path, msgspec.structs.replace(message(2), at=NOON + DAY))
    assert compact(tmp_path).before == 0
    seal(tmp_path, message(3))
    assert compact(tmp_path, small_bytes=10).before == 0
    assert compact(tmp_path, dry_run=True).before == 2
    assert len(files(tmp_path)) == 3
    assert compact(tmp_path, target_bytes=10).before == 0


@pytest.mark.spec("PIPE-05")
def test_a_rewritten_segment_counts_only_from_its_entry_on(tmp_path: Path) -> None:
    name = seal(tmp_path, message(1))
    folder = JournalFolder(tmp_path)
    new = "rewritten-20251115T120000-00000000.parquet"
    os.link(folder.sealed / name, folder.sealed / new)
    assert len(counted(tmp_path)) == 1  # as a crash before the entry leaves it
    replace(folder, "compaction", [name], [new])
    assert len(counted(tmp_path)) == 1
    (folder.sealed / name).unlink()
    assert len(counted(tmp_path)) == 1


def test_what_counts_follows_chains_of_replacements() -> None:
    names = ["a", "b", "rewritten-1", "rewritten-2", "rewritten-lost"]
    manifest = [
        Replacement("", "compaction", ("a", "b"), ("rewritten-1",)),
        Replacement("", "erasure", ("rewritten-1",), ("rewritten-2",)),
    ]
    assert current(names, []) == ["a", "b"]
    assert current(names, manifest[:1]) == ["rewritten-1"]
    assert current(names, manifest) == ["rewritten-2"]


@pytest.mark.spec("PIPE-05")
def test_remains_of_a_killed_compaction_are_removed(tmp_path: Path) -> None:
    name = seal(tmp_path, message(1))
    (tmp_path / "sealed" / "rewritten-20251115T120000-00000000.parquet").write_bytes(b"half")
    compact(tmp_path)
    assert files(tmp_path) == [name]


@pytest.mark.spec("PIPE-05")
def test_old_segments_go_when_their_youngest_event_is_too_old(tmp_path: Path) -> None:
    old = seal(tmp_path, msgspec.structs.replace(message(1), at=NOON - 40 * DAY))
    mixed = seal(tmp_path, msgspec.structs.replace(message(2), at=NOON - 40 * DAY), message(3))
    now = NOON / 1e6
    assert prune(tmp_path, 30 * 86_400, now=now, dry_run=True).segments == (old,)
    assert len(files(tmp_path)) == 2
    done = prune(tmp_path, 30 * 86_400, now=now)
    assert (done.segments, done.kept) == ((old,), 1)
    assert files(tmp_path) == [mixed]
    assert not JournalFolder(tmp_path).replacements()  # so that tables keep what they have


@pytest.mark.spec("PIPE-05")
def test_a_hub_that_is_told_to_removes_old_segments_when_it_seals(tmp_path: Path) -> None:
    seal(tmp_path, message(1))
    young = seal(tmp_path, msgspec.structs.replace(message(2), at=time.time_ns() // 1000))
    command = [sys.executable, "-m", "hubbub.journal.sealing", str(tmp_path), "30"]
    subprocess.run(command, check=True, timeout=50)
    assert files(tmp_path) == [young]


@pytest.mark.spec("PIPE-05")
def test_an_older_segment_with_fewer_columns_still_reads(tmp_path: Path) -> None:
    seal(tmp_path, message(1))
    late = ("producer", "sequence", "extra", "policy", "latency_buckets")
    path = tmp_path / "sealed" / seal(tmp_path, message(2))
    pq.write_table(pq.read_table(path).drop_columns(list(late)), path)
    before = counted(tmp_path)
    assert [event.message_id for event in before] == ["m1", "m2"]
    assert compact(tmp_path).events == 2
    assert counted(tmp_path) == before
    name = JournalFolder(tmp_path).replacements()[0].by[0]
    assert pq.read_schema(tmp_path / "sealed" / name).names == SCHEMA.names


@pytest.mark.spec("PIPE-05")
def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    for n in (1, 2):
        seal(tmp_path, message(n))
    damaged = tmp_path / "sealed" / seal(tmp_path, message(3))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    done = compact(tmp_path)
    assert (done.before, len(done.skipped)) == (2, 1)
    assert damaged.name in done.skipped[0]
    assert damaged.name in prune(tmp_path, 1).skipped[0]
    assert damaged.exists()
    newer = tmp_path / "sealed" / seal(tmp_path, message(4))
    table = pq.read_table(newer)
    pq.write_table(table.append_column("mood", pa.nulls(1, pa.string())), newer)
    compact(tmp_path)
    assert newer.exists()


@pytest.mark.spec("PIPE-05")
def test_upkeep_is_done_by_one_at_a_time(tmp_path: Path) -> None:
    seal(tmp_path, message(1))
    with alone(tmp_path), pytest.raises(UpkeepBusy, match="try again"):
        compact(tmp_path)


@pytest.mark.spec("PIPE-05")
async def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    for n in (1, 2):
        seal(tmp_path / "j", message(n))
    done = await hubbub("journal", "compact", "--journal", "j", folder=tmp_path)
    assert (done.code, done.out) == (0, "made 1 segments of 2; removed 0 old files\n"), done.err
    old = await hubbub(
        "journal", "prune", "--older-than", "1s", "--dry-run", "--journal", "j", folder=tmp_path
    )
    assert "would remove 1 segments" in old.out
    wrong = await hubbub("journal", "prune", "--older-than", "soon", "--journal", "j")
    assert (wrong.code, "such as 30d" in wrong.err) == (2, True)
    nowhere = await hubbub("journal", "compact", "--journal", "nowhere", folder=tmp_path)
    assert (nowhere.code, "holds no journal" in nowhere.err) == (2, True)
