"""Erasure: removes a user's data from the journal and leaves a proof.

Every sealed segment with data of the user is rewritten under another name, without it; one entry of
the manifest switches all of them at once, then the old files are deleted. Finally all files are
searched again.
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
from hubbub.journal.erasure_rules import MAPS, NAMES, REMOVED, ErasureSubject
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


class RewrittenSegment(msgspec.Struct, frozen=True):
    """A rewritten segment."""

    segment: str
    records: int
    sha256: str
    by: str = ""
    by_sha256: str = ""
    hours: tuple[str, ...] = ()


class Whom(msgspec.Struct, frozen=True):
    """The user as SHA-256 of salt and id, so that only someone who knows the id can recognize
    it."""

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
    """Events in segments that a running hub is writing, recorded after the erasure began."""
    mentions_by_others: int
    """Payloads of other users whose text contains the user's id."""


class ErasureProof(msgspec.Struct, frozen=True, kw_only=True):
    hub: str
    user: Whom
    at: str
    searched_segments: int
    searched_records: int
    searched_fields: tuple[str, ...] = (*NAMES, *MAPS)
    removed_fields: tuple[str, ...] = REMOVED
    records: int
    changed: tuple[RewrittenSegment, ...]
    manifest: str | None
    verification: Verification | None
    outside: tuple[str, ...] = OUTSIDE

    @property
    def complete(self) -> bool:
        seen = self.verification
        return seen is not None and not seen.found and not seen.open_found


_Found = tuple[list[RewrittenSegment], int, int]
Progress = Callable[[float], None]


def erase(
    journal: Path,
    hub: str,
    user: str,
    *,
    dry_run: bool = False,
    progress: Progress = lambda share: None,
) -> tuple[ErasureProof, Path | None]:
    """`progress` receives the completed share of searching, rewriting and searching again. Returns
    the proof and its path; with `dry_run`, what would be changed. Raises `BadRequest`,
    `UpkeepBusy`, `SegmentUnreadable` and `OSError`; nothing was changed then."""
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


def _subject(folder: JournalFolder, hub: str, user: str) -> ErasureSubject:
    subject = ErasureSubject(hub, user)
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


def _search(folder: JournalFolder, subject: ErasureSubject, progress: Progress) -> _Found:
    """Finds the segments with data of the user, and counts records and segments."""
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
            changed.append(
                RewrittenSegment(path.name, found, digest(path), hours=tuple(sorted(hours)))
            )
    return changed, records, segments


def _rewrite(
    folder: JournalFolder, subject: ErasureSubject, searched: _Found, progress: Progress
) -> _Found:
    found, records, segments = searched
    done: list[RewrittenSegment] = []
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


def _without(path: Path, subject: ErasureSubject) -> Iterator[pa.RecordBatch]:
    """The rows of a segment with those of the user erased, at unchanged positions."""
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


def verify(folder: JournalFolder, subject: ErasureSubject, progress: Progress) -> Verification:
    """Searches every file of the journal again, including replaced ones."""
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
    subject: ErasureSubject,
    found: _Found,
    entry: str | None,
    seen: Verification | None,
) -> ErasureProof:
    changed, records, segments = found
    return ErasureProof(
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


def _keep(folder: JournalFolder, proof: ErasureProof) -> Path:
    place = folder.path / PROOFS
    place.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = place / f"{stamp}-{secrets.token_hex(4)}.json"
    write_private(path, msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n")
    sync(place)
    return path


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
