"""What a feed of a document keeps for those who are about to subscribe."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import Alone
from hubbub.domain.documents.changes import (
    CATCH_UP_BYTES,
    DocumentAdvanced,
    DocumentState,
    DocumentUpdate,
)
from hubbub.domain.notices import DocumentUpdated, Notice
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.documents.feed import DocumentFeed
from hubbub.ports.bus import Attachment

pytestmark = pytest.mark.spec("SEC-01")


class AboutToFollow:
    """A channel that somebody is about to subscribe to."""

    hub_name, channel = "acme", "doc:a"
    is_used = has_users = True

    def say(self, notice: Notice) -> None:
        pass


def changed(version: int, size: int) -> DocumentAdvanced:
    ops = b"[" + b" " * (size - 2) + b"]"
    return DocumentAdvanced(DocumentUpdate("e", version, 1000 + version, None, "", ops), size)


def feed(alone: Alone) -> DocumentFeed:
    made = DocumentFeed(AboutToFollow(), alone.node.bus)
    made.begin(Attachment("e", 0, None, document=DocumentState("e", 0, 0, 2)))
    return made


def told(document: DocumentFeed, since: int) -> list[DocumentUpdated]:
    """What somebody is told that has the document at this version."""
    wanted = SubscribeItem("doc:a", document_version=since, document_epoch="e")
    return document.catch_up(wanted, ())


async def test_who_is_about_to_subscribe_is_told_what_came_meanwhile(tmp_path: Path) -> None:
    async with Alone(tmp_path) as alone:
        document = feed(alone)
        for version in range(1, 6):
            document.receive(changed(version, 20))
        assert [each.version for each in told(document, 2)] == [3, 4, 5]


async def test_what_is_kept_for_who_is_about_to_subscribe_is_bounded_in_bytes(
    tmp_path: Path,
) -> None:
    """However long somebody is about to subscribe, and however large changes are."""
    most = 0
    async with Alone(tmp_path) as alone:
        document = feed(alone)
        for version in range(1, 200):
            document.receive(changed(version, 10_000))
            kept = max((told(document, since) for since in range(version)), key=len)
            most = max(most, sum(len(each.ops.text) for each in kept))
    assert 0 < most <= CATCH_UP_BYTES
