"""Whatever a tenant can make grow on disk is counted, or bounded by something else."""

from __future__ import annotations

import re

from hubbub.storage.sql.schema import SQLITE, load_migrations

_BY_THE_WRITER = {
    "messages",
    "notifications",
    "document_changes",
    "document_puts",
    "document_snapshots",
    "search_texts",
}
_WITH_THEIR_MESSAGES = {"threads", "thread_messages"}
"""Attributes of messages count twice for them."""
_BOUNDED_OTHERWISE = {
    "audit": "by the services and administrators who cause it, and by its age",
    "comm_tokens": "one for each peer",
    "revocations": "by administrators, and by the tokens' own end",
    "sessions": "by the quota `sessions`, and by their age",
    "session_holders": "by the number of nodes",
}
_OF_NO_HUB = {"hub_usage", "nodes", "partitions"}


def test_every_table_is_counted_or_bounded_otherwise() -> None:
    """As docs/security.md says, under "What counts"."""
    statements = [text for each in load_migrations(SQLITE) for text in each.statements]

    def named(pattern: str) -> set[str]:
        return {found[1] for text in statements if (found := re.match(pattern, text))}

    counted = named(r"CREATE TRIGGER count_added_(\w+) ")
    others = _BY_THE_WRITER | _WITH_THEIR_MESSAGES | set(_BOUNDED_OTHERWISE) | _OF_NO_HUB
    assert counted.isdisjoint(others)
    assert counted | others == named(r"CREATE TABLE (\w+)")
