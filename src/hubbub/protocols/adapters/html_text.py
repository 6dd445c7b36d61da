"""Extracts text from HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, _: object) -> None:
        if tag in ("script", "style", "head"):
            self._hidden += 1
        elif tag in ("br", "p", "div", "tr", "li"):
            self.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "head") and self._hidden:
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


def html_text(page: str) -> str:
    """The visible text of a page, line by line."""
    reader = _Page()
    reader.feed(page)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
