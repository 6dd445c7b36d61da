"""Files and entries of feeds as messages."""

from __future__ import annotations

import json

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocols.adapters.feeds import declares_entities, entry_message
from hubbub.protocols.adapters.files import (
    FileSettings,
    FileState,
    Sightings,
    file_message,
    is_wanted,
)
from hubbub.protocols.adapters.html_text import html_text

pytestmark = [pytest.mark.spec("COMM-03")]
SETTINGS = FileSettings()
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><id>urn:2</id><title>Second &amp; last</title><link href="https://x.example/2"/>
<summary type="html">&lt;p&gt;a &lt;b&gt;b&lt;/b&gt;&lt;/p&gt;</summary></entry></feed>"""


def test_a_file_is_read_once_it_stopped_changing() -> None:
    sightings = Sightings(2.0, 5)
    assert sightings.stable({"a": FileState(1, "1")}, 100.0) == []
    assert sightings.stable({"a": FileState(5, "2")}, 102.0) == []
    assert sightings.stable({"a": FileState(5, "2"), "b": FileState(1, "0")}, 103.9) == []
    assert sightings.stable({"a": FileState(5, "2"), "b": FileState(1, "0")}, 105.9) == ["b", "a"]
    assert sightings.stable({}, 106.0) == []
    assert sightings.stable({"a": FileState(5, "2")}, 107.0) == []


@pytest.mark.parametrize("name", [".hidden", "a.part", "b.tmp", "c~", "D.PART"])
def test_unfinished_files_are_left_alone(name: str) -> None:
    assert not is_wanted(name, SETTINGS)
    assert not is_wanted("a.csv", FileSettings(pattern="*.txt"))


def test_a_file_is_a_text_or_a_message_in_json() -> None:
    text = file_message("drop", "a.txt", "grün".encode(), SETTINGS)
    assert (text.content, text.headers, text.type) == ("grün", {"file": "a.txt"}, "FILE")
    body = json.dumps({"type": "BUILD", "subtype": "FAILED", "content": "red", "ttl": 5}).encode()
    found = file_message("drop", "b.json", body, SETTINGS)
    assert (found.type, found.content, found.ttl_ms) == ("BUILD", "red", 5)
    assert file_message("drop", "b.json", b"[1]", SETTINGS).content == "[1]"


def test_ids_of_files_tell_names_and_contents_apart() -> None:
    files = [("a", b"1"), ("a", b"2"), ("b", b"1")]
    ids = {file_message("drop", name, data, SETTINGS).id for name, data in files}
    assert len(ids) == 3
    assert file_message("drop", "a", b"1", SETTINGS).id in ids


@given(st.text(max_size=50), st.binary(max_size=200))
def test_the_content_of_any_file_is_the_same_bytes(name: str, data: bytes) -> None:
    name = name.encode("utf-8", "replace").decode() + ".txt"
    found = file_message("drop", name, data, SETTINGS).content
    assert data == (found if isinstance(found, bytes) else found.encode())


def test_an_entry_is_a_message_with_its_link() -> None:
    found = feedparser.parse(ATOM)
    message = entry_message("https://x.example/feed", found.feed, found.entries[0], "FEED", "ann")
    assert message.content == "Second & last\n\na b\n\nhttps://x.example/2"
    assert message.headers == {
        "title": "Second & last", "link": "https://x.example/2", "feed": "News",
    }  # fmt: skip
    assert message.receiver == "ann"
    again = entry_message("https://x.example/feed", found.feed, found.entries[0], "FEED", "ann")
    assert message.id == again.id
    assert entry_message("https://y.example", {}, found.entries[0], "FEED", "").id != message.id


def test_entities_are_found_in_every_encoding() -> None:
    bomb = '<!DOCTYPE r [<!ENTITY a "x">]><rss/>'
    for encoding in ("ascii", "utf-16-le", "utf-16-be"):
        assert declares_entities(bomb.encode(encoding))
    assert not declares_entities(ATOM)


@given(st.text(max_size=300))
def test_no_page_breaks_the_reader(page: str) -> None:
    html_text(page)
