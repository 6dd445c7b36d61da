"""The journal's archive: segments of all nodes in one place, on a disk or in an object store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.command import hubbub
from harness.journals import counted, message, seal
from harness.object_store import BUCKET, object_store
from hubbub.domain.errors import BadRequest
from hubbub.journal.archive import Archive, ArchiveUnavailable
from hubbub.journal.compaction import compact
from hubbub.journal.erasure import erase

pytestmark = pytest.mark.spec("PIPE-01")


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URL of a bucket, with a place for a folder."""
    with object_store() as address:
        place = f"scheme=http&endpoint_override={address}&region=us-east-1"
        yield f"s3://key:secret@{BUCKET}/%s?{place}"


@pytest.fixture(params=["disk", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return (tmp_path / "archive").as_uri()
    store: str = request.getfixturevalue("bucket")
    return store % tmp_path.name


def ids(journal: Path) -> list[str]:
    return sorted(event.message_id or "" for event in counted(journal))


def test_what_two_nodes_push_is_pulled_once(url: str, tmp_path: Path) -> None:
    west, east, mirror = tmp_path / "west", tmp_path / "east", tmp_path / "mirror"
    seal(west, message(1), message(2))
    seal(east, message(3))
    assert Archive(url).push(west).segments == 1
    assert Archive(url).push(east).segments == 1
    assert Archive(url).push(east).segments == 0
    assert Archive(url).pull(mirror).segments == 2
    assert ids(mirror) == ["m1", "m2", "m3"]
    seal(east, message(4))
    Archive(url).push(east)
    assert Archive(url).pull(mirror).segments == 1
    assert Archive(url).pull(mirror).segments == 0
    assert ids(mirror) == ["m1", "m2", "m3", "m4"]


def test_segments_that_two_nodes_put_together_count_once(url: str, tmp_path: Path) -> None:
    west, east, mirror = tmp_path / "west", tmp_path / "east", tmp_path / "mirror"
    for node, first in ((west, 1), (east, 3)):
        seal(node, message(first))
        seal(node, message(first + 1))
        Archive(url).push(node)
    Archive(url).pull(mirror)
    for node in (west, east):  # both manifests begin with entry 1
        compact(node)
        done = Archive(url).push(node)
        assert (done.segments, done.removed) == (1, 2)
    assert ids(mirror) == ["m1", "m2", "m3", "m4"]
    Archive(url).pull(mirror)
    assert ids(mirror) == ["m1", "m2", "m3", "m4"]
    fresh = tmp_path / "fresh"
    assert Archive(url).pull(fresh).segments == 2
    assert ids(fresh) == ["m1", "m2", "m3", "m4"]


@pytest.mark.spec("PIPE-05")
def test_what_was_erased_in_one_folder_leaves_the_archive_and_does_not_come_back(
    url: str, tmp_path: Path
) -> None:
    node, mirror = tmp_path / "node", tmp_path / "mirror"
    seal(node, message(1, user="ann"), message(2, user="bob"))
    Archive(url).push(node)
    Archive(url).pull(mirror)
    erase(mirror, "demo", "ann")
    assert Archive(url).push(mirror).removed == 1
    Archive(url).push(node)  # which still has the original
    fresh = tmp_path / "fresh"
    Archive(url).pull(fresh)
    erased, kept = counted(fresh)
    assert (kept.user, erased.payload) == ("bob", None)
    assert erased.user not in (None, "ann")


def test_an_archive_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    seal(tmp_path / "node", message(1))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArchiveUnavailable, match="nothing is lost"):
        Archive((tmp_path / "file").as_uri()).push(tmp_path / "node")
    assert ids(tmp_path / "node") == ["m1"]


def test_a_url_that_is_none_is_refused_by_name_and_without_its_keys() -> None:
    with pytest.raises(BadRequest, match=r"gopher://example\.org") as caught:
        Archive("gopher://key:hidden@example.org/journal?secret=hidden")
    assert "hidden" not in caught.value.message


async def test_push_and_pull_from_the_command_line(tmp_path: Path) -> None:
    node, mirror, archive = tmp_path / "node", tmp_path / "mirror", (tmp_path / "a").as_uri()
    seal(node, message(1))
    pushed = await hubbub("journal", "push", "--journal", str(node), "--archive", archive)
    assert pushed.out.startswith("pushed 1 segments")
    pulled = await hubbub("journal", "pull", "--journal", str(mirror), "--archive", archive)
    assert pulled.out.startswith("pulled 1 segments")
    assert ids(mirror) == ["m1"]
    missing = await hubbub("journal", "push", "--journal", str(node))
    assert missing.code == 2
    assert "--archive" in missing.err


def test_a_hub_that_seals_pushes_and_prunes_only_what_is_in_the_archive(tmp_path: Path) -> None:
    node, archive = tmp_path / "node", tmp_path / "archive"
    seal(node, message(1))
    command = [sys.executable, "-m", "hubbub.journal.sealing", str(node), "1"]
    (tmp_path / "file").write_text("in the way")
    subprocess.run([*command, (tmp_path / "file").as_uri()], check=True, timeout=50)
    assert ids(node) == ["m1"]
    subprocess.run([*command, archive.as_uri()], check=True, timeout=50)
    assert ids(node) == []
    Archive(archive.as_uri()).pull(tmp_path / "mirror")
    assert ids(tmp_path / "mirror") == ["m1"]
