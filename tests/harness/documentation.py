"""The examples in the documentation: how they are written, and how they compare with what happens.

Fenced blocks of these languages are run (`harness.example_runner`), in the order of the page:

    yaml          a configuration; the first one of a page is that of the hub it runs against
    http          a request and, from the line `HTTP/1.1 …` on, its response
    socket        a WebSocket: `connect PATH`, `> sent`, `& in the same frame`, `< received`,
                  `< close CODE REASON`; without `connect` it is one of the hub `demo`, greeted
    sse           what an event stream says next
    zeromq        a ZeroMQ REQ socket: `> frame`, `< frame`; `zeromq dealer` a DEALER one
    zmtp          what ZeroMQ says on a TCP connection, in hexadecimal; `..` is any byte
    sh            commands; a `json` or `text` block right after it shows the last one's output
    python NAME   a file that a later command starts; without a name, a script with its output

The page in an `html` block is opened in a browser (tests/browser/test_pages.py), the `nginx` block
is used by a test of its own. What is only to be read says so: `prose`, alone or behind the language
(`ts prose`). Any other block is refused.

A second word names what goes on (`socket ann`, `http stream`, `sh listener`): a later block with
the same name continues it. In what is expected `…` stands for anything, and `<name>` for anything
the first time and for the same thing from then on, also in what is sent.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
RUN_LANGUAGES = frozenset(("http", "socket", "sse", "sh", "python", "zeromq", "zmtp"))

CHECKED_ELSEWHERE = {
    "html": frozenset(("quickstart.md", "javascript.md", "first-half-hour.md")),
    "nginx": frozenset(("run-behind-nginx.md",)),
}
"""Pages by language: their blocks are run by tests that name them."""
_FENCE = re.compile(r"^```(\w*)[ \t]*([^\n`]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"<([a-z][\w-]*)>")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

Values = dict[str, Any]


class Block(msgspec.Struct, frozen=True):
    """One fenced block, and where it stands."""

    language: str
    name: str
    text: str
    where: str


def pages() -> list[Path]:
    """Every page that people write by hand or read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def title_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            language=found[1],
            name=found[2].strip(),
            text=found[3].rstrip("\n"),
            where=f"{title_of(page)}:{text.count(chr(10), 0, found.start()) + 1}",
        )
        for found in _FENCE.finditer(text)
    ]


def is_run_or_prose(block: Block, before: Block | None) -> bool:
    """`before`: the block in front of it on the page. Outputs are those of the command before, or
    of the one whose name they have; configurations are checked."""
    if block.language in RUN_LANGUAGES or "prose" in (block.language, block.name):
        return True
    if block.language in ("json", "text"):
        outputs = ("sh",) if block.language == "json" else ("sh", "python")
        return bool(block.name) or (before is not None and before.language in outputs)
    page = block.where.rpartition(":")[0].rpartition("/")[2]
    return block.language == "yaml" or page in CHECKED_ELSEWHERE.get(block.language, ())


def links_of(page: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", page.read_text()))


def anchors_of(page: Path) -> set[str]:
    """The fragments that lead to the headings of a page."""
    headings = _HEADING.findall(_FENCE.sub("", page.read_text()))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


class Mismatch(AssertionError):
    """An example that says something else than what happens."""


def fill(text: str, values: Values) -> str:
    """The text to send, with the page's placeholders replaced by their values."""
    return _NAME.sub(lambda found: str(values.get(found[1], found[0])), text)


def fill_json(text: str, values: Values) -> str:
    return json.dumps(_filled(json.loads(text), values), ensure_ascii=False)


def _filled(value: Any, values: Values) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, values) for each in value]
    if isinstance(value, str):
        whole = _NAME.fullmatch(value)
        return values.get(whole[1], value) if whole else fill(value, values)
    return value


def agrees(expected: str, actual: Any, values: Values) -> bool:
    """Whether a JSON value is as the example says; names that are new get their values from it."""
    return _agrees(json.loads(expected), actual, values)


def expect_json(expected: str, actual: Any, values: Values, where: str) -> None:
    if not agrees(expected, actual, values):
        shown = json.dumps(actual, indent=2, ensure_ascii=False)
        raise Mismatch(f"{where}: the example says\n{expected}\nbut it was\n{shown}")


def _agrees(expected: Any, actual: Any, values: Values) -> bool:
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and expected.keys() == actual.keys()
            and all(_agrees(each, actual[key], values) for key, each in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(_agrees(*pair, values) for pair in zip(expected, actual, strict=True))
        )
    whole = _NAME.fullmatch(expected) if isinstance(expected, str) else None
    if whole and not isinstance(actual, str):
        return bool(values.setdefault(whole[1], actual) == actual)
    if isinstance(expected, str) and isinstance(actual, str):
        return text_agrees(expected, actual, values)
    return expected == "…" or (type(expected) is type(actual) and bool(expected == actual))


def text_agrees(expected: str, actual: str, values: Values) -> bool:
    """Whether a text is as the example says; names that are new get their values from it."""
    new: list[str] = []
    pattern = ""
    for part in re.split(r"(…|<[a-z][\w-]*>)", expected):
        name = _NAME.fullmatch(part)
        if part == "…":
            pattern += ".*"
        elif name is None:
            pattern += re.escape(part)
        elif name[1] in values:
            pattern += re.escape(str(values[name[1]]))
        else:
            pattern += "(.+)"
            new.append(name[1])
    found = re.fullmatch(pattern, actual, re.DOTALL)
    if found is None:
        return False
    values.update(zip(new, found.groups(), strict=True))
    return True


def expect_text(expected: str, actual: str, values: Values, where: str) -> None:
    if not text_agrees(expected.strip(), actual.strip(), values):
        raise Mismatch(f"{where}: the example says\n{expected}\nbut it was\n{actual}")
