"""POST to an endpoint that a tenant named: pooled connections, bounded answers, no redirects."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import aiohttp
import msgspec


class Posted(msgspec.Struct, frozen=True):
    """What came back; `body` is None where it was larger than asked for."""

    status: int
    content_type: str | None
    body: bytes | None


class HttpPoster:
    """The caller bounds the time. Raises `aiohttp.ClientError`, `OSError` and `ValueError`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], max_bytes: int
    ) -> Posted:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=200, limit_per_host=50),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        async with self._session.post(
            url, data=body, headers=headers, allow_redirects=False
        ) as response:
            content_type = response.headers.get("Content-Type")
            answer = bytearray()
            async for chunk in response.content.iter_chunked(16 * 1024):
                answer += chunk
                if len(answer) > max_bytes:
                    return Posted(response.status, content_type, None)
            return Posted(response.status, content_type, bytes(answer))


def header_safe(text: str) -> str:
    """Header values are ASCII; other characters go percent-encoded, as in paths."""
    return quote(text, safe=" !#$&'()*+,-./:;=?@[]^_`{|}~")
