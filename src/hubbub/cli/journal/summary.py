"""The summary of an import, in sentences."""

from __future__ import annotations

from hubbub.journal.importing import Summary
from hubbub.journal.sealed import moment


def describe(summary: Summary, dry_run: bool) -> str:
    verb = "would import" if dry_run else "imported"
    lines = [f"{verb} {_count(summary.imported, 'message')}"]
    if summary.first is not None and summary.last is not None:
        lines[0] += (
            f" of {_count(summary.channels, 'channel')}, {moment(summary.first)} to"
            f" {moment(summary.last)}"
        )
    if summary.segments:
        lines.append(f"wrote {', '.join(summary.segments)}")
    remarks = (
        (summary.known, "already in the journal"),
        (summary.repeated, "repeated with the same id"),
        (summary.renamed, "of channels whose '#' was left out"),
        (summary.not_utf8, "not in UTF-8, read as Latin 1"),
        (summary.clock_back, "older than the one before in the channel"),
        (summary.rejected, "rejected" + (f", see {summary.rejects}" if summary.rejects else "")),
    )
    lines += [f"{number:,} {what}" for number, what in remarks if number]
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
