"""What a feed of a document keeps for those who are about to subscribe."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.domain.documents.changes import CATCH_UP_BYTES, DocumentState, DocumentUpdate
from hubbub.engine.delivery.document_feed import DocumentFeed
from hubbub.ports.bus import DocumentChanged

pytestmark = pytest.mark.spec("SEC-01")


def changed(version: int, size: int) -> DocumentChanged:
    ops = b"[" + b" " * (size - 2) + b"]"
    return DocumentChanged(DocumentUpdate("e", version, 1000 + version, None, "", ops), size)


def feed(alone: Alone) -> DocumentFeed:
    bus = alone.node.bus
    made = DocumentFeed("acme", "doc:a", bus, lambda notice: None, lambda: True, lambda: True)
    made.begin(DocumentState("e", 0, 0, 2))
    return made


async def test_who_is_about_to_subscribe_is_told_what_came_meanwhile(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        document = feed(alone)
        for version in range(1, 6):
            document.receive(changed(version, 20))
        assert [each.version for each in document.up_to_now(2, "e", ())] == [3, 4, 5]


async def test_what_is_kept_for_who_is_about_to_subscribe_is_bounded_in_bytes(
    tmp_path: Path,
) -> None:
    """However long somebody is about to subscribe, and however large changes are."""
    told = 0
    async with Alone(tmp_path) as alone:
        document = feed(alone)
        for version in range(1, 200):
            document.receive(changed(version, 10_000))
            kept = max((document.up_to_now(since, "e", ()) for since in range(version)), key=len)
            told = max(told, sum(len(each.ops) for each in kept))
    assert 0 < told <= CATCH_UP_BYTES
