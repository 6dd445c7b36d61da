"""Public keys of foreign issuers over HTTP."""

from __future__ import annotations

import asyncio

import aiohttp

from hubbub.domain.errors import AuthProviderFailed

MAX_DOCUMENT_BYTES = 256 * 1024
TIMEOUT_SECONDS = 5.0


class HttpKeySource:
    """Implements `hubbub.ports.key_source.KeySource`. Follows no redirects: the address in the
    hub's settings is the one that is trusted."""

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(self, url: str) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._get(url)
        except TimeoutError:
            raise AuthProviderFailed(
                f"the keys did not come within {self._timeout_seconds:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise AuthProviderFailed(
                f"the keys cannot be fetched: {type(error).__name__}"
            ) from None

    async def _get(self, url: str) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=20), cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {"Accept": "application/jwk-set+json, application/json"}
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                raise AuthProviderFailed(f"the keys were refused with status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(16 * 1024):
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise AuthProviderFailed(
                        f"the JWKS document is larger than {MAX_DOCUMENT_BYTES} bytes"
                    )
            return bytes(body)
