"""Static files of the hub: compressed once, with an ETag and their own headers."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256

import msgspec

from hubbub.domain.errors import MethodNotAllowed
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest

IMMUTABLE = "public, max-age=31536000, immutable"
"""For paths that contain a version or a hash."""
REVALIDATED = "no-cache"
"""Browsers cache the file and revalidate it at each use."""


class Variant(msgspec.Struct, frozen=True):
    """A file in one encoding; `coding` is empty for the unencoded file."""

    coding: str
    body: bytes
    etag: str


class StaticFile(msgspec.Struct, frozen=True):
    """`variants` are in order of preference. `headers` are complete lines. `shared`: pages of every
    origin may load it."""

    content_type: str
    variants: tuple[Variant, ...]
    headers: str
    shared: bool = False

    def answer(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        """Raises `MethodNotAllowed`."""
        if request.method not in (b"GET", b"HEAD"):
            raise MethodNotAllowed("this file is only for GET", ("GET", "HEAD"))
        variant = self._variant(request.header(b"accept-encoding") or "")
        headers = f"{self.headers}ETag: {variant.etag}\r\n"
        if _matches(request.header(b"if-none-match"), variant.etag):
            exchange.answer_own(304, b"", self.content_type, headers)
            return
        if variant.coding:
            headers += f"Content-Encoding: {variant.coding}\r\n"
        exchange.answer_own(200, variant.body, self.content_type, headers)

    def _variant(self, accepted: str) -> Variant:
        codings = accepted_codings(accepted)
        for variant in self.variants:
            if variant.coding in codings:
                return variant
        return self.variants[-1]


@cache
def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 9, mtime=0)


def static_file(
    body: bytes,
    content_type: str,
    *,
    cache: str = REVALIDATED,
    brotli: bytes | None = None,
    shared: bool = False,
    headers: Mapping[str, str] | None = None,
) -> StaticFile:
    """`brotli` is the file compressed by the build. `headers` are added, such as
    `Content-Security-Policy`."""
    tag = sha256(body).hexdigest()[:20]
    variants = [Variant("br", brotli, f'"{tag}-br"')] if brotli is not None else []
    packed = _packed(body)
    if len(packed) < len(body):
        variants.append(Variant("gzip", packed, f'"{tag}-gz"'))
    variants.append(Variant("", body, f'"{tag}"'))
    lines = {"Cache-Control": cache, "Vary": "Accept-Encoding"}
    if shared:
        lines |= {
            "Access-Control-Allow-Origin": "*",
            "Cross-Origin-Resource-Policy": "cross-origin",
        }
    lines |= headers or {}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return StaticFile(content_type, tuple(variants), text, shared)


def accepted_codings(header: str) -> set[str]:
    """The content codings that `Accept-Encoding` names and does not exclude with `q=0`."""
    found = set()
    for part in header.split(","):
        coding, _, parameters = part.partition(";")
        name, _, quality = parameters.strip().partition("=")
        if name.strip().lower() != "q" or quality.strip(" 0."):
            found.add(coding.strip().lower())
    return found - {""}


def _matches(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    known = {each.strip().removeprefix("W/") for each in if_none_match.split(",")}
    return etag in known or "*" in known
