"""Files for browsers, as built by `make web` (src/hubbub/web)."""

from __future__ import annotations

import re
from importlib.resources import files

import msgspec

from hubbub.gateways.static import IMMUTABLE, REVALIDATED, StaticFile, static_file

CONTENT_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}


class BuiltFile(msgspec.Struct):
    """`integrity` is the value of the HTML attribute with that name."""

    integrity: str


class WebManifest(msgspec.Struct):
    version: str
    files: dict[str, BuiltFile]


def sdk_files() -> dict[str, StaticFile]:
    """The files of the SDK, by path: each under `/sdk/`, whose content changes with the hub, and
    under its version, whose content never changes."""
    manifest = manifest_of("sdk")
    found = {}
    for name in manifest.files:
        body, brotli, kind = built_file("sdk", name)
        found[f"/sdk/{name}"] = static_file(body, kind, brotli=brotli, shared=True)
        found[f"/sdk/{manifest.version}/{name}"] = static_file(
            body, kind, brotli=brotli, shared=True, cache=IMMUTABLE
        )
    return found


_PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
PAGE_HEADERS = {
    "Content-Security-Policy": _PAGE_POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""These pages run only the hub's own scripts, create no markup from text, and cannot be framed."""
_HASHED = re.compile(r"-[A-Z0-9]{8}\.")


def dashboard_files() -> dict[str, StaticFile]:
    """Files by name; empty if the dashboard was not built."""
    if not files("hubbub").joinpath("web", "dashboard", "manifest.json").is_file():
        return {}
    found = {}
    for name in manifest_of("dashboard").files:
        body, brotli, kind = built_file("dashboard", name)
        cache = IMMUTABLE if _HASHED.search(name) else REVALIDATED
        found[name] = static_file(body, kind, brotli=brotli, cache=cache, headers=PAGE_HEADERS)
    return found


def docs_files() -> dict[str, StaticFile]:
    """The files of the page that documents the HTTP API with examples and a console, by path."""
    folder = files("hubbub").joinpath("server", "pages", "docs")
    named = {"/docs": "index.html", "/docs/docs.js": "docs.js", "/docs/docs.css": "docs.css"}
    return {
        path: static_file(
            folder.joinpath(name).read_bytes(),
            CONTENT_TYPES[name.rpartition(".")[2]],
            headers=PAGE_HEADERS,
        )
        for path, name in named.items()
    }


def manifest_of(workspace: str) -> WebManifest:
    path = files("hubbub").joinpath("web", workspace, "manifest.json")
    return msgspec.json.decode(path.read_bytes(), type=WebManifest)


def built_file(workspace: str, name: str) -> tuple[bytes, bytes | None, str]:
    """The file, its Brotli-compressed form if the build created one, and its content type."""
    folder = files("hubbub").joinpath("web", workspace)
    brotli = folder.joinpath(f"{name}.br")
    return (
        folder.joinpath(name).read_bytes(),
        brotli.read_bytes() if brotli.is_file() else None,
        CONTENT_TYPES[name.rpartition(".")[2]],
    )
