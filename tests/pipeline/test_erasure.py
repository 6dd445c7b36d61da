"""Erasure of one user: gone from every segment, with counts as they were and a proof."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from harness.command import hubbub
from harness.journals import NOON, counted, message, seal
from hubbub.domain import journal as kinds
from hubbub.domain.errors import BadRequest
from hubbub.domain.journal import JournalEvent
from hubbub.journal.erasure import ErasureProof, erase
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import MAGIC, head_of
from hubbub.journal.sealed import SegmentUnreadable
from hubbub.journal.upkeep import digest

pytestmark = pytest.mark.spec("PIPE-05")


def event(kind: str, second: int, **more: object) -> JournalEvent:
    values: dict[str, object] = {"node": "n1", **more}
    return JournalEvent(kind, NOON + second * 1_000_000, "demo", **values)  # type: ignore[arg-type]


def a_day(path: Path) -> None:
    """Ann in three segments, Bob in all of them."""
    seal(
        path,
        event(kinds.SESSION_OPENED, 0, session="s-ann", user="ann"),
        event(kinds.SESSION_OPENED, 0, session="s-bob", user="bob"),
        message(1, "ann", session="s-ann", producer="p-7", sequence=1, headers={"x": "1"}),
        message(2, "bob", session="s-bob", receiver="ann", refers_to="m1"),
    )
    seal(
        path,
        message(3, "ann", session="s-ann", producer="p-7", sequence=2, language="en"),
        message(4, "bob", channel="u:ann"),
        message(5, "bob", extra={"seen by": "ann", "at": "x"}),
        message(6, "service", sender="ann"),
        event(kinds.DROPPED, 7, session="s-ann", channel="chat", reason="slow_consumer"),
    )
    seal(path, message(8, "bob"), message(9, "bob", payload=b"hello ann"))
    seal(
        path,
        event(kinds.RECEIVED, 10, user="ann", channel="chat", subscription="home", serial=1),
        event(kinds.WEBHOOK_ATTEMPT, 11, channel="chat", subscription="home", peer="http://ann/"),
        event(kinds.RECEIVED, 12, user="bob", channel="other", subscription="home", serial=1),
        event(kinds.SESSION_CLOSED, 13, session="s-ann", user="ann", duration=13_000_000),
    )


def everything(journal: Path) -> bytes:
    """Every value of every event of every file in the folder of segments."""
    return repr([msgspec.structs.astuple(each) for each in counted(journal)]).encode()


def test_nothing_of_the_user_is_left_and_all_counts_stay(tmp_path: Path) -> None:
    a_day(tmp_path)
    before = counted(tmp_path)
    proof, _ = erase(tmp_path, "demo", "ann")
    after = counted(tmp_path)
    assert proof.complete
    assert (proof.records, len(proof.changed)) == (11, 3)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        kept = ("kind", "at", "hub", "node", "message_id", "size", "serial", "refers_to", "count")
        assert all(getattr(old, name) == getattr(new, name) for name in kept)
    text = everything(tmp_path).replace(b"hello ann", b"")
    assert b"ann" not in text
    assert b"s-ann" not in text
    for name in ("session", "user", "producer", "channel"):
        assert len({getattr(e, name) for e in after}) == len({getattr(e, name) for e in before})


@pytest.mark.spec("NOTE-01")
def test_notifications_of_the_users_own_channel_go_too(tmp_path: Path) -> None:
    own = event(kinds.NOTIFICATION_CREATED, 1, channel="notification:u:ann", payload=b"secret")
    read = event(kinds.NOTIFICATION_READ, 2, channel="notification:all", user="ann")
    seal(tmp_path, own, read, event(kinds.NOTIFICATION_READ, 3, channel="notification:u:annette"))
    proof, _ = erase(tmp_path, "demo", "ann")
    assert (proof.complete, proof.records) == (True, 2)
    first, second, third = counted(tmp_path)
    assert (first.payload, first.channel) == (None, f"notification:u:{second.user}")
    assert third.channel == "notification:u:annette"


@pytest.mark.spec("CMD-01")
def test_addresses_of_the_user_go_too(tmp_path: Path) -> None:
    """hMessages name their author by an address, with or without a session."""
    authors = ("ann@demo", "ann@demo/s1", "annette@demo", "ann@other", "bob@demo")
    seal(tmp_path, *(message(n, "bob", author=each) for n, each in enumerate(authors)))
    seal(tmp_path, message(9, "bob", extra={"for": "ann@demo/s1", "at": "x"}))
    proof, _ = erase(tmp_path, "demo", "ann")
    assert (proof.complete, proof.records) == (True, 3)
    *messages, last = counted(tmp_path)
    assert [each.payload is None for each in messages] == [True, True, False, False, False]
    assert tuple(each.author for each in messages[2:]) == authors[2:]
    assert messages[0].author == messages[1].author
    assert last.extra == {"at": "x"}


def test_own_payloads_go_and_those_of_others_stay(tmp_path: Path) -> None:
    a_day(tmp_path)
    proof, _ = erase(tmp_path, "demo", "ann")
    messages = {event.message_id: event for event in counted(tmp_path) if event.message_id}
    gone = {name for name, event in messages.items() if event.payload is None}
    assert gone == {"m1", "m2", "m3", "m4", "m6"}
    assert messages["m1"].headers is None
    assert messages["m1"].user == messages["m2"].receiver == messages["m6"].sender
    assert messages["m1"].producer == messages["m3"].producer != "p-7"
    assert (messages["m3"].sequence, messages["m3"].language) == (2, None)
    assert messages["m5"].extra == {"at": "x"}
    assert messages["m2"].user == "bob"
    assert proof.verification is not None
    assert proof.verification.mentions_by_others == 1
    attempt, bobs = (
        next(event for event in counted(tmp_path) if event.at == NOON + second * 1_000_000)
        for second in (11, 12)
    )
    assert attempt.subscription not in (None, "home")
    assert attempt.peer != "http://ann/"
    assert bobs.subscription == "home"


def test_the_proof_tells_what_was_done_but_not_who(tmp_path: Path) -> None:
    a_day(tmp_path)
    hashes = {path.name: digest(path) for path in (tmp_path / "sealed").iterdir()}
    proof, path = erase(tmp_path, "demo", "ann")
    assert path is not None
    text = path.read_text()
    assert msgspec.json.decode(text, type=ErasureProof) == proof
    assert '"ann"' not in text
    assert "erased-" not in text
    known = hashlib.sha256(f"{proof.user.salt}ann".encode()).hexdigest()
    assert proof.user.sha256 == known
    (entry,) = JournalFolder(tmp_path).replacements()
    assert (entry.reason, proof.manifest) == ("erasure", "00000001.json")
    for changed in proof.changed:
        assert changed.sha256 == hashes[changed.segment]
        assert changed.by_sha256 == digest(tmp_path / "sealed" / changed.by)
        assert not (tmp_path / "sealed" / changed.segment).exists()
        assert changed.hours == ("2025-11-15T12",)
    assert list(entry.replaced) == [changed.segment for changed in proof.changed]
    assert list(entry.by) == [changed.by for changed in proof.changed]
    assert proof.verification is not None
    assert (proof.verification.found, proof.verification.records) == (0, 15)
    assert any("SQL" in each for each in proof.outside)


def test_raw_segments_are_sealed_and_erased_as_well(tmp_path: Path) -> None:
    folder = JournalFolder(tmp_path)
    folder.make()
    body = msgspec.msgpack.encode([message(1), message(2, "bob")])
    for place, name in ((folder.closed, "n1-a"), (folder.open, "n1-b")):
        (place / f"{name}.hbj").write_bytes(MAGIC + head_of(body) + body)
    tried, _ = erase(tmp_path, "demo", "ann", dry_run=True)
    assert tried.records == 2, "a dry run looks at what hubs have written up to now"
    proof, _ = erase(tmp_path, "demo", "ann")
    assert (proof.records, proof.complete) == (2, True)
    assert b"ann" not in everything(tmp_path)


def test_files_that_were_replaced_before_go_too(tmp_path: Path) -> None:
    from hubbub.journal.compaction import compact

    for number in (1, 2):
        seal(tmp_path, message(number))
    compact(tmp_path)
    assert len(list((tmp_path / "sealed").iterdir())) == 3
    proof, _ = erase(tmp_path, "demo", "ann")
    assert (proof.complete, proof.verification and proof.verification.files) == (True, 1)


def test_a_second_erasure_finds_nothing(tmp_path: Path) -> None:
    a_day(tmp_path)
    erase(tmp_path, "demo", "ann")
    before = sorted(path.name for path in (tmp_path / "sealed").iterdir())
    proof, _ = erase(tmp_path, "demo", "ann")
    assert (proof.records, proof.manifest, proof.complete) == (0, None, True)
    assert sorted(path.name for path in (tmp_path / "sealed").iterdir()) == before


def test_a_dry_run_and_another_hub_change_nothing(tmp_path: Path) -> None:
    a_day(tmp_path)
    before = {path.name: digest(path) for path in (tmp_path / "sealed").iterdir()}
    proof, path = erase(tmp_path, "demo", "ann", dry_run=True)
    assert (proof.records, path, proof.verification) == (11, None, None)
    proof, _ = erase(tmp_path, "elsewhere", "ann")
    assert proof.records == 0
    assert {path.name: digest(path) for path in (tmp_path / "sealed").iterdir()} == before


def test_a_segment_that_cannot_be_read_stops_it_before_any_change(tmp_path: Path) -> None:
    a_day(tmp_path)
    damaged = tmp_path / "sealed" / seal(tmp_path, message(20))
    damaged.write_bytes(b"PAR1 no more PAR1")
    before = sorted(path.name for path in (tmp_path / "sealed").iterdir())
    with pytest.raises(SegmentUnreadable, match=damaged.name):
        erase(tmp_path, "demo", "ann")
    assert sorted(path.name for path in (tmp_path / "sealed").iterdir()) == before
    with pytest.raises(BadRequest, match="empty"):
        erase(tmp_path, "demo", "")


async def test_the_command_says_what_is_outside(tmp_path: Path) -> None:
    a_day(tmp_path / "j")
    who = ("--hub", "demo", "--user", "ann", "--journal", "j")
    tried = await hubbub("journal", "erase", *who, "--dry-run", folder=tmp_path)
    assert "would change 11 records in 3 segments" in tried.out, tried.err
    done = await hubbub("journal", "erase", *who, folder=tmp_path)
    assert done.code == 0, done.err
    assert "searched again: 0 records found" in done.out
    assert "SQL" in done.out
    assert "the proof is in j/erasures/" in done.out
