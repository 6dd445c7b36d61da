"""Erasure: one user's data leave the journal, and a proof of it stays.

Every sealed segment that has something of the user is written anew under another name, without it;
one entry of the manifest puts all of them in place at once, then the old files go. In the end all
files are searched again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.errors import BadRequest
from hubbub.domain.names import check_name
from hubbub.files import sync, write_private
from hubbub.journal.erasure_rules import MAPS, NAMES, REMOVED, Subject
from hubbub.journal.erasure_search import flags, hours_of, in_raw, touched
from hubbub.journal.folder import SEALED, JournalFolder
from hubbub.journal.sealed import LENIENT, batches, find, write_batches
from hubbub.journal.sealing import seal_all
from hubbub.journal.upkeep import (
    alone,
    digest,
    draft_name,
    remove_replaced,
    replace,
)

PROOFS: Final = "erasures"
OUTSIDE: Final = (
    "messages in the hub's own store (SQL), its backups and its log files: they are not part of the"
    " journal",
    "what others wrote about the user in their payloads: those are theirs; they are only counted",
    "tables that were made before: the next `hubbub pipeline run` makes those of the hours anew",
    "copies that somebody made of the journal or of the tables",
)


class Changed(msgspec.Struct, frozen=True):
    """One segment that was written anew."""

    segment: str
    records: int
    sha256: str
    by: str = ""
    by_sha256: str = ""
    hours: tuple[str, ...] = ()


class Whom(msgspec.Struct, frozen=True):
    """The user, so that only who knows the id can tell: SHA-256 of salt and id."""

    salt: str
    sha256: str

    @classmethod
    def of(cls, user: str) -> Whom:
        salt = secrets.token_hex(16)
        return cls(salt, hashlib.sha256(f"{salt}{user}".encode()).hexdigest())


class Verification(msgspec.Struct, frozen=True):
    """The search after the erasure, over every file of the journal."""

    at: str
    files: int
    records: int
    found: int
    open_found: int
    """In segments that a running hub is writing: what came after the erasure began."""
    mentions_by_others: int
    """Payloads of others in which the user's id occurs as a part of the text."""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    hub: str
    user: Whom
    at: str
    searched_segments: int
    searched_records: int
    searched_fields: tuple[str, ...] = (*NAMES, *MAPS)
    removed_fields: tuple[str, ...] = REMOVED
    records: int
    changed: tuple[Changed, ...]
    manifest: str | None
    verification: Verification | None
    outside: tuple[str, ...] = OUTSIDE

    @property
    def complete(self) -> bool:
        seen = self.verification
        return seen is not None and not seen.found and not seen.open_found


_Found = tuple[list[Changed], int, int]
Progress = Callable[[float], None]


def erase(
    journal: Path,
    hub: str,
    user: str,
    *,
    dry_run: bool = False,
    progress: Progress = lambda share: None,
) -> tuple[Proof, Path | None]:
    """`progress` is told the share that is done of searching, rewriting and searching again.
    Answers the proof and where it is; with `dry_run`, what would be changed. Raises
    `BadRequest`, `UpkeepBusy`, `SegmentUnreadable` and `OSError`; then nothing was changed."""
    check_name(hub, "hub")
    if not user:
        raise BadRequest("the user's id is empty")
    folder = JournalFolder(journal)
    if not folder.sealed.is_dir():
        raise BadRequest(f"{journal} holds no journal; give its folder with --journal")
    with alone(journal):
        seal_all(journal)
        subject = _subject(folder, hub, user)
        if dry_run:
            would = _search(folder, subject, progress)
            progress(1.0)
            return _proof(folder, subject, would, None, None), None
        found = _search(folder, subject, _third(progress, 0))
        changed, records, segments = _rewrite(folder, subject, found, _third(progress, 1))
        entry = None
        if changed:
            entry = replace(
                folder,
                "erasure",
                [each.segment for each in changed],
                [each.by for each in changed],
            )
        remove_replaced(folder, 0)
        seen = verify(folder, subject, _third(progress, 2))
        progress(1.0)
        proof = _proof(
            folder, subject, (changed, records, segments), entry.name if entry else None, seen
        )
        return proof, _keep(folder, proof)


def _subject(folder: JournalFolder, hub: str, user: str) -> Subject:
    subject = Subject(hub, user)
    wanted = (pc.field("hub") == hub) & (pc.field("user") == user)
    columns = ("session", "channel", "subscription")
    rows = find(folder.sealed_segments(), columns, wanted).group_by(list(columns)).aggregate([])
    for row in rows.to_pylist():
        if row["session"] is not None:
            subject.sessions.add(row["session"])
        if row["subscription"] is not None:
            subject.subscriptions.add((row["channel"], row["subscription"]))
    return subject


def _third(progress: Progress, number: int) -> Progress:
    return lambda share: progress((number + share) / 3)


def _search(folder: JournalFolder, subject: Subject, progress: Progress) -> _Found:
    """What has something of the user: the segments, and how many records and segments there are."""
    changed, records, segments = [], 0, 0
    paths = folder.sealed_segments()
    for path in paths:
        progress(segments / len(paths))
        found, hours = 0, set()
        for batch in batches(path):
            mask = touched(batch, subject)
            records += batch.num_rows
            found += int(mask.sum())
            hours |= hours_of(batch, mask)
        segments += 1
        if found:
            changed.append(Changed(path.name, found, digest(path), hours=tuple(sorted(hours))))
    return changed, records, segments


def _rewrite(
    folder: JournalFolder, subject: Subject, searched: _Found, progress: Progress
) -> _Found:
    found, records, segments = searched
    done: list[Changed] = []
    try:
        for number, each in enumerate(found):
            progress(number / len(found))
            name = draft_name()
            target = folder.sealed / name
            done.append(msgspec.structs.replace(each, by=name))
            write_batches(target, _without(folder.sealed / each.segment, subject))
            done[-1] = msgspec.structs.replace(done[-1], by_sha256=digest(target))
    except BaseException:
        for each in done:
            (folder.sealed / each.by).unlink(missing_ok=True)
        raise
    return done, records, segments


def _without(path: Path, subject: Subject) -> Iterator[pa.RecordBatch]:
    """The rows of a segment, those of the user erased, all in their places."""
    for batch in batches(path):
        mask = touched(batch, subject)
        places = np.flatnonzero(mask)
        if not len(places):
            yield batch
            continue
        rows = batch.take(pa.array(places)).to_pylist()
        erased = pa.Table.from_pylist([subject.erase(row) for row in rows], schema=LENIENT)
        order = np.arange(batch.num_rows)
        order[places] = batch.num_rows + np.arange(len(places))
        both = pa.concat_tables([pa.Table.from_batches([batch]), erased])
        yield both.take(pa.array(order)).combine_chunks().to_batches()[0]


def verify(folder: JournalFolder, subject: Subject, progress: Progress) -> Verification:
    """Search every file of the journal once more, those that no longer count as well."""
    files = records = found = mentions = 0
    needle = subject.user.encode()
    paths = sorted(folder.sealed.glob(f"*{SEALED}"))
    for path in paths:
        progress(files / len(paths))
        files += 1
        for batch in batches(path):
            records += batch.num_rows
            found += int(touched(batch, subject).sum())
            inside = flags(pc.match_substring(batch.column("payload"), needle))
            mentions += int((inside & flags(pc.equal(batch.column("hub"), subject.hub))).sum())
    for path in folder.closed_segments():
        files += 1
        found += in_raw(path, subject)
    open_found = sum(in_raw(path, subject) for path in folder.live_segments())
    return Verification(_now(), files, records, found, open_found, mentions)


def _proof(
    folder: JournalFolder,
    subject: Subject,
    found: _Found,
    entry: str | None,
    seen: Verification | None,
) -> Proof:
    changed, records, segments = found
    return Proof(
        hub=subject.hub,
        user=Whom.of(subject.user),
        at=_now(),
        searched_segments=segments,
        searched_records=records,
        records=sum(each.records for each in changed),
        changed=tuple(changed),
        manifest=entry,
        verification=seen,
    )


def _keep(folder: JournalFolder, proof: Proof) -> Path:
    place = folder.path / PROOFS
    place.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = place / f"{stamp}-{secrets.token_hex(4)}.json"
    write_private(path, msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n")
    sync(place)
    return path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
