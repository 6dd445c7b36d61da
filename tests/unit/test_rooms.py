"""Rooms plug in: what a room declares reaches the layer that needs it."""

from __future__ import annotations

import sys

import pytest

from hubbub import rooms
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.domain.journal import KINDS
from hubbub.engine.documents.settings import DocumentSettings
from hubbub.engine.limits import EngineLimits
from hubbub.engine.rooms import merged
from hubbub.server.limits import engine_limits
from hubbub.server.settings import Settings, describe, load


@pytest.fixture(autouse=True)
def two_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "ROOMS", ("notifications", "documents"))


def test_a_rooms_modules_are_found_without_their_import() -> None:
    sys.modules.pop("hubbub.cli.notifications.commands", None)
    assert dict(rooms.places("cli", "commands")) == {
        "notifications": "hubbub.cli.notifications.commands"
    }
    assert "hubbub.cli.notifications.commands" not in sys.modules


def test_a_module_that_is_called_like_a_room_is_not_the_rooms_package() -> None:
    """`hubbub.domain.notifications` is a module."""
    assert [room for room, _ in rooms.places("domain", "journal")] == ["documents"]


def test_the_journal_knows_the_kinds_of_rooms() -> None:
    assert DOCUMENT_CHANGED in KINDS


def test_the_settings_of_a_room_reach_its_limits() -> None:
    settings = load(None, {"HUBBUB_DOCUMENT_MAX_DEPTH": "7"}, {"document.maxBytes": 5000})
    found = engine_limits(settings).of(DocumentSettings)
    assert (found.limits.depth, found.limits.document_bytes) == (7, 5000)
    assert "document.maxDepth = 7    # set\n" in describe(settings)
    assert "document.maxDepth = 60\n" in describe(Settings())


def test_a_room_without_settings_in_the_file_has_its_defaults() -> None:
    assert EngineLimits().of(DocumentSettings) == DocumentSettings()


def test_two_rooms_cannot_answer_the_same_request() -> None:
    one: dict[type, int] = {int: 1}
    other: dict[type, int] = {str: 2}
    assert merged([one, other]) == {int: 1, str: 2}
    with pytest.raises(ValueError, match="two rooms answer int"):
        merged([one, other, one])
