"""src/hubbub/web is what web/ makes: its manifests name the hash of their sources. Needs no Node;
`make web-check` builds again and compares all bytes."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "hubbub" / "web"
MANIFESTS = sorted(BUILT.glob("*/manifest.json"))


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for each in path.iterdir():
        if each.name not in ("node_modules", "dist"):
            yield from _files(each)


def source_hash(inputs: list[str]) -> str:
    """As `hashOf` in web/build.mjs: names and contents in the order of names."""
    found = {
        file.relative_to(WEB).as_posix(): file for name in inputs for file in _files(WEB / name)
    }
    digest = hashlib.sha256()
    for name in sorted(found):
        content = found[name].read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_what_is_committed_was_built_from_these_sources(path: Path) -> None:
    manifest = json.loads(path.read_text())
    assert manifest["sources"] == source_hash(manifest["inputs"]), "run `make web`"


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_a_file_has_the_hash_that_pages_check(path: Path) -> None:
    files = json.loads(path.read_text())["files"]
    built = {f.relative_to(path.parent).as_posix() for f in _files(path.parent)}
    assert built - {"manifest.json"} - {f"{name}.br" for name in files} == set(files)
    for name, described in files.items():
        digest = hashlib.sha384((path.parent / name).read_bytes()).digest()
        assert described["integrity"] == "sha384-" + base64.b64encode(digest).decode()


def test_the_sdk_is_built() -> None:
    assert "sdk" in [path.parent.name for path in MANIFESTS]


def test_the_lockfile_names_no_server() -> None:
    """A registry's address would make the packages come from there, whatever npm is told."""
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert [name for name, each in packages.items() if "://" in each.get("resolved", "")] == []
    without_hash = [
        name
        for name, each in packages.items()
        if name.startswith("node_modules/") and not each.get("link") and "integrity" not in each
    ]
    assert without_hash == []


def test_the_sdk_knows_the_messages_of_the_protocol() -> None:
    path = ROOT / "scripts" / "generate_sdk_schema.py"
    spec = importlib.util.spec_from_file_location("generate_sdk_schema", path)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (WEB / "sdk" / "src" / "schema.ts").read_text()
    assert written == generator.schema(), "run scripts/generate_sdk_schema.py"
