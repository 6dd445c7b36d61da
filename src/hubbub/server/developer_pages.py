"""Pages that the listener serves in developer mode: a start page, a chat, a shared board."""

from __future__ import annotations

from importlib.resources import files

from hubbub.gateways.listener import Page

_PAGES = {"/": "start.html", "/chat": "chat.html", "/board": "board.html"}


def developer_pages() -> dict[str, Page]:
    return {path: _page(name) for path, name in _PAGES.items()}


def _page(name: str) -> Page:
    body = files("hubbub.server").joinpath("pages", name).read_bytes()
    return lambda _: (200, "text/html; charset=utf-8", body)
