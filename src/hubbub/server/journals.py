"""Creates the journal from the settings."""

from __future__ import annotations

from pathlib import Path

from hubbub.journal.exporting import RuleOf
from hubbub.journal.folder import JournalFolder
from hubbub.journal.sealer import Sealer
from hubbub.journal.segments import SegmentOptions
from hubbub.journal.writer import JournalWriter
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.server.data_folder import JOURNAL
from hubbub.server.settings import Settings


def journal_path(settings: Settings) -> Path:
    return settings.journal.path or Path(settings.storage.path) / JOURNAL


def make_journal(
    settings: Settings, clock: Clock, store: Store, rule_of: RuleOf, node: str
) -> JournalWriter | None:
    """None if the journal is disabled."""
    wanted = settings.journal
    if not wanted.enabled:
        return None
    path = journal_path(settings)
    seals = wanted.seal and settings.first_of_its_folder
    return JournalWriter(
        JournalFolder(path),
        node,
        clock,
        store,
        rule_of,
        SegmentOptions(
            segment_bytes=wanted.segment_bytes,
            segment_seconds=wanted.segment_seconds,
            min_free_bytes=wanted.min_free_bytes,
        ),
        wanted.max_buffered_bytes,
        Sealer(path, wanted.retention_days, wanted.archive) if seals else None,
    )
