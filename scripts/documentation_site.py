"""Brings into the documentation site what its pages link to outside of docs/ (a hook of mkdocs).

In the repository a page links to `../ARCHITECTURE.md` or `../examples/chat.html`. The site has
these files under `project/`, and the links lead there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FOLDER = "project"

_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
_FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
_NAMED_FENCE = re.compile(r"^```(\w+)[ \t]+.*")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and what any page links to outside of docs/."""
    wanted = {path.name for path in ROOT.glob("*.md")} - {"README.md"}
    for page in [*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in wanted)]:
        folder = page.parent.relative_to(ROOT).as_posix()
        targets = (_joined(folder, link) for link in _links(page.read_text()))
        wanted |= {target for target in targets if _is_outside_file(target)}
    for path in sorted(wanted):
        source = str(ROOT / path)
        files.append(File.generated(config, f"{FOLDER}/{path}", abs_src_path=source))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between files of the repository into links between files of the site, and drop
    the names of examples (`socket ann`), which mean something to the tests only."""
    here = page.file.src_uri
    start = posixpath.dirname(here)
    origin = start.removeprefix(FOLDER).strip("/") if here.startswith(FOLDER) else f"docs/{start}"

    def moved(found: re.Match[str]) -> str:
        target = _joined(origin, found[1])
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
            if (ROOT / "docs" / target).is_dir():
                target += "/README.md"
        elif _is_outside_file(target):
            target = f"{FOLDER}/{target}"
        else:
            return found[1]
        return posixpath.relpath(target, start or ".")

    parts = re.split(rf"({_FENCE.pattern})", markdown, flags=_FENCE.flags)
    return "".join(
        _NAMED_FENCE.sub(r"```\1", part) if part.startswith("```") else _LINK.sub(moved, part)
        for part in parts
    )


def _links(text: str) -> list[str]:
    return _LINK.findall(_FENCE.sub("", text))


def _joined(folder: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(folder, link))


def _is_outside_file(path: str) -> bool:
    return not path.startswith(("docs/", "..")) and (ROOT / path).is_file()
