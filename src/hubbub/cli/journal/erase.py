"""`hubbub journal erase`: take one user out of the journal, and keep a proof of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.cli.failures import FAILED, fail
from hubbub.cli.journal.options import existing, journal_command
from hubbub.cli.progress import progress_of
from hubbub.cli.tables import answer, json_option

if TYPE_CHECKING:
    from hubbub.journal.erasure import ErasureProof


@click.command()
@click.option("--hub", required=True, envvar="HUBBUB_HUB", help="The hub of the user.")
@click.option("--user", required=True, help="The user's id.")
@click.option("--dry-run", is_flag=True, help="Only say what would be changed.")
@json_option
@journal_command
def erase(journal: Path, hub: str, user: str, dry_run: bool, as_json: bool) -> None:
    """Remove a user's data from every segment of the journal.

    Counts stay right: the user becomes a random alias. The tables follow with the next
    `hubbub pipeline run`.
    """
    from hubbub.journal.erasure import erase as take_out

    progress = progress_of("erasing")
    proof, path = take_out(existing(journal), hub, user, dry_run=dry_run, progress=progress)
    about = {"proof": proof, "path": str(path) if path else None}
    answer(about, _describe(proof, path, dry_run), as_json)
    if not dry_run and not proof.complete:
        fail(
            "something of the user is still there, see the proof; end the user's sessions, and run"
            " this again",
            FAILED,
        )


def _describe(proof: ErasureProof, path: Path | None, dry_run: bool) -> str:
    verb = "would change" if dry_run else "changed"
    lines = [
        f"searched {proof.searched_records:,} records in {proof.searched_segments} segments",
        f"{verb} {proof.records:,} records in {len(proof.changed)} segments",
    ]
    seen = proof.verification
    if seen is not None:
        lines.append(f"searched again: {seen.found} records found in {seen.files} files")
        if seen.open_found:
            lines.append(f"{seen.open_found} records are in a segment that a hub is writing")
        if seen.mentions_by_others:
            lines.append(f"{seen.mentions_by_others} payloads of others mention the id; they stay")
    lines.append("not part of the journal, and not changed:")
    lines += [f"- {each}" for each in proof.outside]
    if path is not None:
        lines.append(f"the proof is in {path}")
    return "\n".join(lines)
