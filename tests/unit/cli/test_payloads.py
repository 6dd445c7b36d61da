"""Where the payload of a message comes from, and what type it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.cli.messages.payloads import PayloadSource
from hubbub.domain.messages import BINARY, JSON, TEXT


@pytest.mark.parametrize(
    ("data", "kind", "read"),
    [
        ("hello", None, (b"hello", TEXT)),
        ("caf\udcff", None, (b"caf\xff", BINARY)),
        ('{"a": 1}', JSON, (b'{"a": 1}', JSON)),
        ("a,b", "text/csv", (b"a,b", "text/csv")),
    ],
)
def test_the_type_is_as_given_or_as_the_bytes_are(
    data: str, kind: str | None, read: tuple[bytes, str]
) -> None:
    assert PayloadSource(data, None, kind).read() == read


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "picture"
    file.write_bytes(b"\x89PNG")
    assert PayloadSource(None, file, None).read() == (b"\x89PNG", BINARY)


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (PayloadSource("a", Path("b"), None), "not both"),
        (PayloadSource("{", None, JSON), "leave out --json"),
        (PayloadSource("caf\udcff", None, TEXT), "send it with --binary"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_what_to_do(
    source: PayloadSource, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        source.read()
    assert stopped.value.code == 2
    assert remedy in capsys.readouterr().err
