"""The form of open segments, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.journal import PUBLISHED, SESSION_OPENED, TELEMETRY_LOST, JournalEvent
from hubbub.journal.records import MAGIC, NotASegment, good_bytes, head_of, read_events

pytestmark = pytest.mark.spec("PIPE-01")

EVENTS = [
    JournalEvent(SESSION_OPENED, 1_000_000, "acme", "local", session="s1", technology="websocket"),
    JournalEvent(PUBLISHED, 2_000_000, "acme", "local", channel="news", message_id="m1", size=3),
    JournalEvent(PUBLISHED, 3_000_000, "acme", "local", channel="news", payload=b"\x00\xff"),
]


def record(*events: JournalEvent) -> bytes:
    body = msgspec.msgpack.encode(events)
    return head_of(body) + body


def segment(path: Path, *records: bytes) -> Path:
    path.write_bytes(MAGIC + b"".join(records))
    return path


def test_what_was_written_is_read_back_in_order(tmp_path: Path) -> None:
    path = segment(tmp_path / "a.hbj", record(*EVENTS[:2]), record(EVENTS[2]))
    assert list(read_events(path)) == EVENTS
    assert good_bytes(path) == path.stat().st_size


def test_a_segment_of_the_first_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.hbj"
    path.write_bytes(b"HBJRNL1\n" + record(*EVENTS))
    assert list(read_events(path)) == EVENTS
    assert good_bytes(path) == path.stat().st_size


def test_a_torn_record_at_the_end_is_left_out_wherever_it_was_cut(tmp_path: Path) -> None:
    whole, torn = record(*EVENTS[:2]), record(EVENTS[2])
    for length in range(len(torn)):
        path = segment(tmp_path / "a.hbj", whole, torn[:length])
        assert list(read_events(path)) == EVENTS[:2]
        assert good_bytes(path) == len(MAGIC) + len(whole)


def test_nothing_behind_a_bad_checksum_is_believed(tmp_path: Path) -> None:
    damaged = bytearray(record(EVENTS[1]))
    damaged[-1] ^= 1
    path = segment(tmp_path / "a.hbj", record(EVENTS[0]), bytes(damaged), record(EVENTS[2]))
    assert list(read_events(path)) == EVENTS[:1]


def test_a_length_beyond_reason_is_damage_and_takes_no_memory(tmp_path: Path) -> None:
    path = segment(tmp_path / "a.hbj", record(EVENTS[0]), b"\xff" * 12)
    assert list(read_events(path)) == EVENTS[:1]


@pytest.mark.parametrize("content", [b"", b"HBJ", b"PAR1 something else"])
def test_another_file_is_no_segment(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.hbj"
    path.write_bytes(content)
    with pytest.raises(NotASegment):
        list(read_events(path))


def test_an_event_of_the_wrong_shape_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    body = msgspec.msgpack.encode([EVENTS[0], {"kind": 7}, {"at": 1}, EVENTS[1]])
    nonsense = b"\xc1\xc1"
    path = segment(tmp_path / "a.hbj", head_of(body) + body, head_of(nonsense) + nonsense)
    first, second, bad, worse = read_events(path)
    assert [first, second] == EVENTS[:2]
    assert (bad.kind, bad.count, bad.reason) == (TELEMETRY_LOST, 2, "unreadable")
    assert (worse.kind, worse.count, worse.reason) == (TELEMETRY_LOST, 1, "unreadable")


def test_a_field_of_a_later_version_is_passed_over(tmp_path: Path) -> None:
    event = {**msgspec.to_builtins(EVENTS[0]), "colour": "green"}
    body = msgspec.msgpack.encode([event])
    assert list(read_events(segment(tmp_path / "a.hbj", head_of(body) + body))) == EVENTS[:1]


@given(st.binary(max_size=200))
def test_no_bytes_behind_good_records_confuse_the_reader(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes
) -> None:
    path = segment(tmp_path_factory.mktemp("noise") / "a.hbj", record(EVENTS[0]), noise)
    assert list(read_events(path))[:1] == EVENTS[:1]
