"""From open segments over closed ones to Parquet, and what crashes leave in between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from hubbub.domain.journal import DELIVERED, PUBLISHED, SCHEMA_VERSION, JournalEvent
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import head_of, read_events
from hubbub.journal.sealing import seal_all

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.spec("PIPE-01")

NOW = 1_790_000_000.0
EVENTS = [
    JournalEvent(
        PUBLISHED, 1, "acme", "local", channel="news", payload=b"\x00", headers={"k": "v"}
    ),
    JournalEvent(DELIVERED, 2, "acme", "local", channel="news", latency_buckets={3: 1, 90: 4}),
]


@pytest.fixture
def folder(tmp_path: Path) -> JournalFolder:
    folder = JournalFolder(tmp_path / "journal")
    folder.make()
    return folder


def write(descriptor: int, *events: JournalEvent) -> None:
    body = msgspec.msgpack.encode(events)
    os.write(descriptor, head_of(body) + body)


def abandoned(folder: JournalFolder, *events: JournalEvent, tail: bytes = b"") -> Path:
    """An open segment whose writer is gone."""
    path, descriptor = folder.create("local", NOW)
    write(descriptor, *events)
    os.write(descriptor, tail)
    os.close(descriptor)
    return path


def closed(folder: JournalFolder, *events: JournalEvent) -> Path:
    path, descriptor = folder.create("local", NOW)
    write(descriptor, *events)
    folder.close(path, descriptor)
    return folder.closed / path.name


def test_a_sealed_segment_has_the_columns_of_the_contract(folder: JournalFolder) -> None:
    closed(folder, *EVENTS)
    (path,) = seal_all(folder.path)
    found = pq.read_table(path)
    fields = list(JournalEvent.__struct_fields__)
    assert found.schema.names == ["schema_version", "offset", *fields]
    kinds = {name: str(found.schema.field(name).type) for name in found.schema.names}
    assert kinds["schema_version"] == "int32"
    assert {kinds["offset"], kinds["at"], kinds["latency_sum"]} == {"int64"}
    assert (kinds["hub"], kinds["stored"], kinds["payload"]) == ("string", "bool", "binary")
    assert kinds["latency_squares"] == "double"
    assert kinds["headers"].startswith("map<string, string")
    assert kinds["latency_buckets"].startswith("map<int32, int64")
    assert found["offset"].to_pylist() == [0, 1]
    assert found["schema_version"].to_pylist() == [SCHEMA_VERSION] * 2
    codec = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert codec == "ZSTD"


def test_sealing_keeps_every_value(folder: JournalFolder) -> None:
    from hubbub.journal.parquet import read_sealed

    closed(folder, *EVENTS)
    (path,) = seal_all(folder.path)
    assert list(read_sealed(path)) == EVENTS
    assert folder.closed_segments() == []


def test_a_segment_that_a_crash_left_open_is_recovered_and_sealed(folder: JournalFolder) -> None:
    from hubbub.journal.parquet import read_sealed

    raw = abandoned(folder, *EVENTS, tail=b"\x10\x00\x00\x00torn")
    (path,) = seal_all(folder.path)
    assert path.stem == raw.stem
    assert list(read_sealed(path)) == EVENTS
    assert not raw.exists()


def test_an_open_segment_without_a_whole_record_just_goes(folder: JournalFolder) -> None:
    path, descriptor = folder.create("local", NOW)
    os.write(descriptor, b"\x10\x00")
    os.close(descriptor)
    assert seal_all(folder.path) == []
    assert not path.exists()


def test_a_segment_of_a_living_writer_is_left_alone(folder: JournalFolder) -> None:
    path, descriptor = folder.create("local", NOW)
    write(descriptor, *EVENTS)
    assert seal_all(folder.path, live=False) == []
    assert list(read_events(path)) == EVENTS
    os.close(descriptor)


def test_a_living_writer_is_asked_to_close_its_segment(folder: JournalFolder) -> None:
    path, descriptor = folder.create("local", NOW)
    write(descriptor, *EVENTS)

    def answer() -> None:
        while not folder.request_of(path).exists():
            pass
        folder.close(path, descriptor)

    writer = Thread(target=answer)
    writer.start()
    sealed = seal_all(folder.path)
    writer.join()
    assert [each.stem for each in sealed] == [path.stem]


def test_a_writer_that_does_not_answer_is_not_waited_for_long(folder: JournalFolder) -> None:
    path, descriptor = folder.create("local", NOW)
    write(descriptor, *EVENTS)
    assert seal_all(folder.path, rotation_seconds=0.05) == []
    assert not folder.request_of(path).exists()
    os.close(descriptor)


def test_sealing_again_changes_nothing(folder: JournalFolder) -> None:
    closed(folder, *EVENTS)
    (path,) = seal_all(folder.path)
    before = path.stat()
    assert seal_all(folder.path) == []
    assert path.stat() == before


def test_a_sealer_killed_before_it_was_done_is_completed_by_the_next(folder: JournalFolder) -> None:
    raw = closed(folder, *EVENTS)
    draft = folder.sealed / f".{raw.stem}.parquet"
    draft.write_bytes(b"PAR1 half of it")
    (path,) = seal_all(folder.path)
    assert pq.read_table(path).num_rows == len(EVENTS)
    assert not draft.exists()


def test_a_sealer_killed_after_it_was_done_leaves_no_double(folder: JournalFolder) -> None:
    raw = closed(folder, *EVENTS)
    content = raw.read_bytes()
    (path,) = seal_all(folder.path)
    raw.write_bytes(content)
    assert seal_all(folder.path) == []
    assert not raw.exists()
    assert folder.sealed_segments() == [path]


def test_a_segment_that_was_replaced_does_not_come_back(folder: JournalFolder) -> None:
    raw = closed(folder, *EVENTS)
    folder.manifest.mkdir()
    entry = {"at": 1, "reason": "erasure", "replaced": [f"{raw.stem}.parquet"], "by": []}
    (folder.manifest / "00000001.json").write_text(json.dumps(entry))
    assert seal_all(folder.path) == []
    assert not raw.exists()
    assert folder.sealed_segments() == []


def test_a_file_that_is_no_segment_stays_and_does_not_stop_the_others(
    folder: JournalFolder,
) -> None:
    closed(folder, *EVENTS)
    stray = folder.closed / "zzz.hbj"
    stray.write_bytes(b"something else")
    assert len(seal_all(folder.path)) == 1
    assert stray.exists()
    assert len(folder.sealed_segments()) == 1


def test_where_there_is_no_journal_there_is_nothing_to_seal(tmp_path: Path) -> None:
    assert seal_all(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_many_events_come_in_row_groups_with_offsets_that_go_on(folder: JournalFolder) -> None:
    path, descriptor = folder.create("local", NOW)
    for start in range(0, 70_000, 1000):
        write(
            descriptor, *(JournalEvent(PUBLISHED, at, "acme") for at in range(start, start + 1000))
        )
    folder.close(path, descriptor)
    (sealed,) = seal_all(folder.path)
    table = pq.read_table(sealed, columns=["offset", "at"])
    assert table["offset"].to_pylist() == table["at"].to_pylist() == list(range(70_000))
    assert pq.ParquetFile(sealed).num_row_groups == 2
