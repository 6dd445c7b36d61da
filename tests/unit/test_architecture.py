"""The architecture as it is written down: no circles of imports, and every printed name exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "hubbub"
DOCUMENT = (ROOT / "ARCHITECTURE.md").read_text()

_CODE = re.compile(r"`([^`]+)`")
_FILE = re.compile(r"[\w/]+\.(?:py|proto)$|[\w/]+/$")


def _module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imports(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Those behind `TYPE_CHECKING` and inside of functions among them."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in modules else node.module


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {_module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {
        name: {found for found in _imports(path, modules) if found in modules and found != name}
        for name, path in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("a circle of imports: " + " -> ".join(error.args[1]))


# -- ARCHITECTURE.md -------------------------------------------------------------------------------


def _rows() -> Iterator[tuple[int, str, list[str]]]:
    """The rows of all tables that name a file in their first or second column, as cells."""
    for number, line in enumerate(DOCUMENT.splitlines(), 1):
        if line.startswith("|") and not line.startswith("|-"):
            yield number, line, [cell.strip() for cell in line.strip("|").split("|")]


def _resolve(file: str) -> Path | None:
    for base in (PACKAGE, ROOT):
        if (base / file).exists():
            return base / file
    return None


def _files(text: str) -> list[str]:
    return [word for word in _CODE.findall(text) if _FILE.match(word)]


def _names(text: str) -> list[str]:
    return [word for word in _CODE.findall(text) if re.fullmatch(r"[A-Za-z_][\w.]*", word)]


@cache
def _defined(path: Path) -> frozenset[str]:
    """Every class, function, method and attribute of a module, as `name` and `Class.name`."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], owner: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.update((node.name, f"{owner}{node.name}"))
                if isinstance(node, ast.ClassDef):
                    visit(node.body, f"{node.name}.")
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.update((node.target.id, f"{owner}{node.target.id}"))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.update((target.id, f"{owner}{target.id}"))
            elif isinstance(node, ast.If | ast.Try):
                visit(node.body, owner)

    visit(_tree(path).body, "")
    return frozenset(found)


def test_every_file_that_architecture_md_names_exists() -> None:
    missing = [file for file in _files(DOCUMENT) if _resolve(file) is None]
    in_sentences = [
        file for file in missing if "/" in file or not list(PACKAGE.rglob(file))
    ]  # a sentence may go on with files of the folder that it named before
    assert not in_sentences, f"ARCHITECTURE.md names files that do not exist: {in_sentences}"


def test_every_step_of_a_path_is_defined_in_the_file_beside_it() -> None:
    """Rows of the path tables: `| step | file | names | what happens |`."""
    checked = 0
    wrong: list[str] = []
    for number, line, cells in _rows():
        if len(cells) != 4 or len(_files(cells[1])) != 1:
            continue
        path = _resolve(_files(cells[1])[0])
        assert path is not None, line
        for name in _names(cells[2]):
            checked += 1
            if name not in _defined(path):
                wrong.append(f"line {number}: {name} is not in {cells[1]}")
    assert not wrong, "\n".join(wrong)
    assert checked > 60, "the tables of paths were not found"


def test_every_step_is_named_in_a_file_of_the_steps_before_it() -> None:
    """A walk can be followed: what is called next stands in a file that the reader has open, which
    may be one that an earlier step mentions in its last column."""
    checked = 0
    lost: list[str] = []
    read: list[str] = []
    before = 0
    for number, _, cells in _rows():
        if number != before + 1:
            read = []
        before = number
        if len(cells) != 4 or len(_files(cells[1])) != 1:
            continue
        words = {part for name in _names(cells[2]) for part in name.split(".")}
        if read:
            checked += 1
            if not any(re.search(rf"\b{word}\b", text) for word in words for text in read):
                lost.append(f"line {number}: nothing before names {cells[2]}")
        paths = [_resolve(file) for file in (*_files(cells[1]), *_files(cells[3]))]
        read += [path.read_text() for path in paths if path is not None and path.is_file()]
    assert not lost, "\n".join(lost)
    assert checked > 60, "the tables of paths were not found"


def test_every_data_structure_is_defined_where_the_table_says() -> None:
    """Rows of the table of data structures: `| name | file | note |`."""
    checked = 0
    for number, line, cells in _rows():
        if len(cells) != 3 or not _files(cells[1]):
            continue
        for name in _names(cells[0]):
            checked += 1
            paths = [path for path in map(_resolve, _files(cells[1])) if path is not None]
            assert any(name in _defined(path) for path in paths), f"line {number}: {line}"
    assert checked >= 8


def test_the_state_of_a_channel_changes_only_in_channel_itself() -> None:
    """`state` is the machine of `engine/channels/channel.py`; no other module assigns it."""
    engine = PACKAGE / "engine"
    rooms = [*(engine / "channels").glob("*.py"), *(engine / "topics").glob("*.py")]
    assigning = [
        f"{path.name}:{node.lineno}"
        for path in rooms
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == "state"
        and path.name != "channel.py"
    ]
    assert not assigning, f"a channel's state is assigned in {assigning}"


def test_errors_have_their_codes_where_architecture_md_says() -> None:
    places = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ClassDef) and _has_code(node)
    }
    journal = {place for place in places if place.startswith("journal/")}
    assert places - journal == {"domain/errors.py", "client/errors.py", "pipeline/errors.py"}


def _has_code(error: ast.ClassDef) -> bool:
    """Whether the class gives its instances an error code."""
    return any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and ast.unparse(node.targets[0]) == "code"
        for node in error.body
    )


def test_folders_of_unit_tests_are_named_as_in_the_source() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    folders -= {Path("benchmarks")}
    assert not [folder.as_posix() for folder in folders if not (PACKAGE / folder).is_dir()]


SHARED_NAMES = {
    "ChannelSettings": "a schema of the HTTP API, which clients are generated from",
    "Grant": "a schema of the HTTP API, which clients are generated from",
    "PushToken": "a schema of the HTTP API, which clients are generated from",
    "Replayed": "a schema of the HTTP API, which clients are generated from",
    "CommandRefused": "plugins raise it in their own processes, by the name of the hub's error",
}
"""Class names that two modules of the server use, with the reason."""


def test_a_class_name_means_one_thing_in_the_server() -> None:
    """The Python SDK is left out: its names are those of its users' programs."""
    modules: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith("client/") or module.endswith("_pb2.py"):
            continue
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, set()).add(module)
    shared = {name: sorted(where) for name, where in modules.items() if len(where) > 1}
    unexpected = {name: where for name, where in shared.items() if name not in SHARED_NAMES}
    assert not unexpected, f"rename a class of each pair: {unexpected}"
    assert shared.keys() == SHARED_NAMES.keys(), "a name of the list is not shared any more"
