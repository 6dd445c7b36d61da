"""Answers of the admin API as tables."""

from __future__ import annotations

import json

import pytest

from hubbub.cli.tables import show_entry, show_list

HUBS = [{"hub": "a", "sessions": 7, "extra": None}, {"hub": "long name", "sessions": 12}]


def test_numbers_stand_on_the_right_and_text_on_the_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_list(HUBS, {"HUB": "hub", "SESSIONS": "sessions"}, "none", json=False)
    assert capsys.readouterr().out.splitlines() == [
        "HUB        SESSIONS",
        "a                 7",
        "long name        12",
    ]


def test_a_column_may_compute_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(HUBS[:1], {"BUSY": lambda hub: hub["sessions"] > 5}, "none", json=False)
    assert capsys.readouterr().out.splitlines() == ["BUSY", "on"]


def test_nothing_is_said_to_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    show_list([], {"HUB": "hub"}, "there are no hubs", json=False)
    assert capsys.readouterr() == ("", "there are no hubs\n")
    show_list([], {"HUB": "hub"}, "there are no hubs", json=True)
    assert capsys.readouterr() == ("", "")


def test_json_has_a_line_for_each_entry_as_the_server_sent_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_list(HUBS, {"HUB": "hub"}, "none", json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == HUBS


@pytest.mark.spec("OPS-03")
def test_what_a_terminal_would_obey_is_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_list([{"user": "bob\x1b[2J"}], {"USER": "user"}, "none", json=False)
    show_entry({"user": "eve\x07", "channels": ["a\x9b"]}, json=False)
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(out)
    assert "bob\\x1b[2J" in out


def test_fields_of_objects_have_a_dot_between(capsys: pytest.CaptureFixture[str]) -> None:
    show_entry({"hub": "a", "quotas": {"sessions": 3, "inner": {}}, "on": True}, json=False)
    assert capsys.readouterr().out.splitlines() == [
        "hub              a",
        "quotas.sessions  3",
        "quotas.inner     -",
        "on               on",
    ]
