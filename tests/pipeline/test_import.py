"""Foreign logs become journal segments, however dirty they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.command import hubbub
from harness.journals import counted
from hubbub.domain.errors import BadRequest
from hubbub.journal.foreign_times import parse_time
from hubbub.journal.importing import ImportSummary, Source, import_log

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def run(
    tmp_path: Path, content: str | bytes, name: str = "log.csv", **more: object
) -> ImportSummary:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    source = Source(path=file, hub="demo", **more)  # type: ignore[arg-type]
    return import_log(source, tmp_path / "journal", tmp_path / "rejects", now=NOW)


def rejects(tmp_path: Path) -> list[tuple[int, str]]:
    lines = (tmp_path / "rejects").read_text().splitlines()
    return [(entry["line"], entry["reason"]) for entry in map(json.loads, lines)]


def texts(tmp_path: Path) -> list[str]:
    return [(event.payload or b"").decode() for event in counted(tmp_path / "journal")]


@pytest.mark.spec("PIPE-02")
def test_a_log_becomes_published_messages(tmp_path: Path) -> None:
    summary = run(
        tmp_path,
        "time,channel,sender,text,id,reply-to,thread\n"
        "2024-03-01T10:00:00Z,lab,ann,Hello,1,,\n"
        "2024-03-01T10:00:01Z,lab,bob,Hi,2,1,t1\n",
    )
    assert (summary.imported, summary.rejected, summary.channels) == (2, 0, 1)
    assert not (tmp_path / "rejects").exists()
    first, second = counted(tmp_path / "journal")
    assert (first.kind, first.hub, first.node) == ("message.published", "demo", "import")
    assert (second.channel, second.user, second.sender) == ("lab", "bob", "bob")
    assert (second.payload, second.size, second.content_type) == (b"Hi", 2, "text/plain")
    assert (second.message_id, second.refers_to, second.conversation_id) == ("2", "1", "t1")
    assert first.conversation_id is None
    assert second.at == second.published_at == 1_709_287_201_000_000
    assert second.extra == {"file": "log.csv", "line": "3"}


@pytest.mark.spec("PIPE-02")
def test_what_cannot_be_read_is_put_aside_with_line_and_reason(tmp_path: Path) -> None:
    summary = run(
        tmp_path,
        "time;channel;sender;text;id\n"
        "\n"
        "2024-03-01T10:00:00Z;lab;ann;fine;1\n"
        "2024-03-01T10:00:00Z;lab;ann\n"
        "yesterday;lab;ann;when?;2\n"
        "2024-03-01T10:00:00Z;;ann;where?;3\n"
        "2024-03-01T10:00:00Z;a*b;ann;where?;4\n"
        "2099-03-01T10:00:00Z;lab;ann;too early;5\n"
        "03/04/2024 10:00;lab;ann;which month?;6\n"
        "Mar  1 10:00:00;lab;ann;which year?;7\n"
        "2024-03-01T10:00:00Z;lab;ann;another's id;1\n"
        "2024-03-01T10:00:00Z;lab;ann;fine;1\n"
        '2024-03-01T10:00:09Z;lab;ann;"never closed;8\n'
        "2024-03-01T10:00:10Z;lab;ann;after it;9\n",
    )
    assert texts(tmp_path) == ["fine", "after it"]
    assert (summary.imported, summary.repeated, summary.rejected) == (2, 1, 9)
    found = dict(rejects(tmp_path))
    assert found[4] == "it has 3 columns instead of 5"
    assert "'yesterday' cannot be read" in found[5]
    assert found[6] == "there is no channel"
    assert "'*'" in found[7]
    assert "in the future" in found[8]
    assert "swapped" in found[9]
    assert "no year" in found[10]
    assert "for another message" in found[11]
    assert found[13] == "a quote is opened and not closed"


@pytest.mark.spec("PIPE-02")
def test_texts_may_have_many_lines_quotes_and_delimiters(tmp_path: Path) -> None:
    run(
        tmp_path,
        "time,channel,text\n"
        '2024-03-01T10:00:00Z,lab,"one\n\ntwo, ""three""\r\n"\r\n'
        '2024-03-01T10:00:01Z,lab,5" disk\n'
        '2024-03-01T10:00:02Z,lab,"say ""a"", ""b"""\n',
    )
    assert texts(tmp_path) == ['one\n\ntwo, "three"\n', '5" disk', 'say "a", "b"']


@pytest.mark.spec("PIPE-02")
def test_each_line_has_the_encoding_that_fits_it(tmp_path: Path) -> None:
    lines = [
        b"\xef\xbb\xbftime\tchannel\ttext",
        "2024-03-01T10:00:00Z\tlab\tdéjà".encode(),
        "2024-03-01T10:00:01Z\tlab\tdéjà €".encode("cp1252"),
        b"\xef\xbb\xbf2024-03-01T10:00:02Z\tlab\tmarked",
    ]
    summary = run(tmp_path, b"\r\n".join(lines), "log.tsv")
    assert texts(tmp_path) == ["déjà", "déjà €", "marked"]
    assert (summary.not_utf8, summary.rejected) == (1, 0)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.spec("PIPE-02")
def test_marks_at_the_beginning_are_heeded(tmp_path: Path, encoding: str) -> None:
    run(tmp_path, "time,channel,text\n2024-03-01T10:00:00Z,lab,žluťoučký\n".encode(encoding))
    assert texts(tmp_path) == ["žluťoučký"]


@pytest.mark.parametrize(("encoding", "broken"), [("utf-16", b"\x00\xd8"), ("utf-32", b"\0\0\0\1")])
@pytest.mark.spec("PIPE-02")
def test_a_line_with_bytes_that_are_not_in_the_encoding_is_put_aside(
    tmp_path: Path, encoding: str, broken: bytes
) -> None:
    head, tail = "time,channel,text\n1709287200,lab,a", "\n1709287201,lab,ok\n"
    wide = f"{encoding}-le"
    summary = run(tmp_path, head.encode(encoding) + broken + tail.encode(wide))
    assert texts(tmp_path) == ["ok"]
    assert (summary.rejected, rejects(tmp_path)) == (1, [(2, f"the line is not {encoding}")])


@pytest.mark.spec("PIPE-02")
def test_a_given_encoding_is_kept_to(tmp_path: Path) -> None:
    content = b"time,channel,text\n1709287200,lab,"
    summary = run(tmp_path, content + b"\xe9\n1709287201,lab,ok\n", encoding="utf-8")
    assert texts(tmp_path) == ["ok"]
    assert summary.rejected == 1
    with pytest.raises(BadRequest, match="no encoding 'klingon'"):
        run(tmp_path, content, encoding="klingon")
    with pytest.raises(BadRequest, match="utf-16-le"):
        run(tmp_path, "time,channel,text\n1709287200,lab,x\n".encode("utf-16-le"))


@pytest.mark.spec("PIPE-02")
def test_a_clock_may_go_backwards(tmp_path: Path) -> None:
    summary = run(tmp_path, "time,channel,text\n1709287201,a,1\n1709287200,a,2\n1709287199,b,3\n")
    assert (summary.imported, summary.clock_back) == (3, 1)


@pytest.mark.spec("PIPE-02")
def test_importing_twice_doubles_nothing_and_a_longer_log_adds_its_end(tmp_path: Path) -> None:
    log = "time,channel,sender,text\n" + "1709287200,#lab,ann,again\n" * 3
    first = run(tmp_path, log)
    assert (first.imported, first.renamed) == (3, 3)
    second = run(tmp_path, log)
    assert (second.imported, second.known, second.segments) == (0, 3, [])
    third = run(tmp_path, log + "1709287200,#lab,ann,again\n1709287205,lab,bob,new\n")
    assert (third.imported, third.known) == (2, 3)
    events = counted(tmp_path / "journal")
    assert len(events) == len({event.message_id for event in events}) == 5
    assert {event.channel for event in events} == {"lab"}


@pytest.mark.spec("PIPE-02")
def test_lines_of_json_and_lists_of_json_are_read(tmp_path: Path) -> None:
    lines = (
        '{"ts": 1709287200.25, "room": "lab", "user": {"name": "ann"}, "body": "a"}\n\n'
        "{broken\n[1]\n"
        '{"ts": 1709287201, "room": "lab", "body": ["no", "text"]}\n'
        '{"ts": 1709287201, "body": "nowhere"}\n'
    )
    columns = {"sender": "user.name"}
    summary = run(tmp_path, lines, "log.jsonl", columns=columns)
    assert (summary.imported, summary.rejected) == (1, 4)
    assert [line for line, _ in rejects(tmp_path)] == [3, 4, 5, 6]
    assert counted(tmp_path / "journal")[0].sender == "ann"
    listed = '{"exported": 1, "messages": [\n {"date": "2024-03-01", "chat": "x", "text": "b"},\n'
    summary = run(tmp_path, listed + ' {"date": "2024-03-01", "chat": "x", ', "log.json")
    assert (summary.imported, rejects(tmp_path)[0][0]) == (1, 3)


@pytest.mark.spec("PIPE-02")
def test_columns_can_be_named_or_numbered(tmp_path: Path) -> None:
    columns = {"time": "2", "text": "3", "id": "1"}
    run(tmp_path, "7,1709287200,hey\n", channel="lab", columns=columns)
    event = counted(tmp_path / "journal")[0]
    assert (event.message_id, event.channel, event.payload) == ("7", "lab", b"hey")
    with pytest.raises(BadRequest, match="no column for the channel"):
        run(tmp_path, "when,what\n", columns={"time": "when", "text": "what"})
    with pytest.raises(BadRequest, match="either names or numbers"):
        run(tmp_path, "a\n", columns={"time": "1", "text": "what"})
    with pytest.raises(BadRequest, match="not 'colour'"):
        run(tmp_path, "a\n", columns={"colour": "red"})
    with pytest.raises(BadRequest, match="give it with --format"):
        run(tmp_path, "a\n", "log.txt")
    with pytest.raises(BadRequest, match="empty"):
        run(tmp_path, "")


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-01T10:00:00Z",
        "2024-03-01 10:00:00",
        "2024-03-01T11:00:00+01:00",
        "2024-03-01 10:00:00 UTC",
        "2024-03-01 10:00:00,000",
        "2024/03/01 10:00:00",
        "20240301100000",
        "1709287200",
        "1709287200.0",
        "1709287200000",
        "1709287200000000",
        "1709287200000000000",
        "[01/Mar/2024:11:00:00 +0100]",
        "Fri, 01 Mar 2024 10:00:00 +0000",
        "Fri, 01 Mar 2024 10:00:00 GMT",
        "Fri Mar  1 10:00:00 2024",
        "01.03.2024 10:00",
        "01.03.2024, 10:00:00",
    ],
)
def test_times_are_read_in_many_forms(text: str) -> None:
    assert parse_time(text) == 1_709_287_200_000_000


def test_times_without_a_zone_are_of_the_one_that_is_named() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert parse_time("2024-03-01 11:00:00", berlin) == 1_709_287_200_000_000
    assert parse_time("01/03/24 11:00", berlin, "%d/%m/%y %H:%M") == 1_709_287_200_000_000
    assert parse_time(1709287200.25) == 1_709_287_200_250_000


@given(st.text(max_size=40))
def test_any_text_is_a_time_or_a_clear_refusal(text: str) -> None:
    try:
        found: object = parse_time(text)
    except ValueError as error:
        found = str(error)
    assert isinstance(found, int) or "time" in str(found)


@pytest.mark.spec("PIPE-02")
async def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    log = tmp_path / "chat.csv"
    log.write_text("time,channel,text\n1709287200,lab,hey\nnever,lab,hey\n")
    done = await hubbub("journal", "import", "chat.csv", "--journal", "j", folder=tmp_path)
    assert done.code == 0, done.err
    assert "imported 1 message of 1 channel" in done.out
    assert "1 rejected, see chat.csv.rejects.jsonl" in done.out
    wrong = await hubbub("journal", "import", "chat.csv", "--columns", "x", folder=tmp_path)
    assert (wrong.code, "--columns is a list" in wrong.err) == (2, True)
    log.write_text("time,channel,text\nnever,lab,hey\n")
    nothing = await hubbub("journal", "import", "chat.csv", "--journal", "j", folder=tmp_path)
    assert (nothing.code, "nothing in the file could be read" in nothing.err) == (1, True)
