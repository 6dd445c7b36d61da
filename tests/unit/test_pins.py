"""requirements/*.txt pin every package to one version and to the hashes of its files."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
_PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", re.M)


def pins(file: Path) -> dict[str, tuple[str, int]]:
    """Version and number of hashes by name; nothing else may be in the file."""
    text = file.read_text()
    rest = re.sub(r"^#.*$", "", _PIN.sub("", text), flags=re.M)
    assert not rest.strip(), rest
    return {name: (version, hashes.count("--hash")) for name, version, hashes in _PIN.findall(text)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_package_has_a_version_and_hashes(file: Path) -> None:
    found = pins(file)
    assert found
    assert [name for name, (_, hashes) in found.items() if hashes == 0] == []


def test_a_package_has_the_same_version_everywhere() -> None:
    versions: dict[str, set[str]] = {}
    for file in FILES:
        for name, (version, _) in pins(file).items():
            versions.setdefault(name, set()).add(version)
    assert {name: known for name, known in versions.items() if len(known) > 1} == {}


@pytest.mark.parametrize(
    "source", sorted((ROOT / "requirements").glob("*.in")), ids=lambda file: file.stem
)
def test_what_is_asked_for_is_pinned(source: Path) -> None:
    asked = re.findall(r"^([A-Za-z][\w.-]*)", source.read_text(), re.M)
    assert {name.lower() for name in asked} <= set(pins(source.with_suffix(".txt")))


def test_installing_checks_the_hashes() -> None:
    script = (ROOT / "scripts" / "setup.sh").read_text()
    installs = [line for line in script.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-deps --no-build-isolation -e ." in installs[1]


def test_what_a_hub_and_its_clients_are_installed_with_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    imported = {
        name.partition(".")[0]
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _imports(node)
    }
    owners = metadata.packages_distributions()
    used = {owner.lower().replace("_", "-") for name in imported for owner in owners.get(name, ())}
    assert {re.split(r"[<>=]", name)[0] for name in asked} <= used


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
