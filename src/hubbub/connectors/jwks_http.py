"""Public keys of external issuers over HTTP."""

from __future__ import annotations

from hubbub.domain.callbacks import Reach
from hubbub.domain.errors import AuthProviderFailed, BadRequest
from hubbub.ports.outgoing import HttpRequest, Outgoing, SendFailed

MAX_DOCUMENT_BYTES = 256 * 1024
TIMEOUT_SECONDS = 5.0
_ACCEPT = ("Accept", "application/jwk-set+json, application/json")


class HttpKeySource:
    """Implements `hubbub.ports.key_source.KeySource`. Follows no redirects: only the URL in the
    hub's settings is trusted."""

    def __init__(self, outgoing: Outgoing, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._outgoing = outgoing
        self.timeout_seconds = timeout_seconds

    async def fetch(self, hub: str, url: str, reach: Reach) -> bytes:
        request = HttpRequest(
            hub,
            "GET",
            url,
            (_ACCEPT,),
            timeout_seconds=self.timeout_seconds,
            max_answer_bytes=MAX_DOCUMENT_BYTES,
        )
        try:
            answer = await self._outgoing.send("keys", request, reach)
        except SendFailed as error:
            if error.word == "timeout":
                raise AuthProviderFailed(
                    f"the keys did not come within {self.timeout_seconds:g} s"
                ) from None
            if error.word == "too_large":
                raise AuthProviderFailed(
                    f"the JWKS document is larger than {MAX_DOCUMENT_BYTES} bytes"
                ) from None
            raise AuthProviderFailed(f"the keys cannot be fetched: {error.word}") from None
        except BadRequest as error:
            raise AuthProviderFailed(
                "the keys cannot be fetched: the hub's jwksUrl cannot be used",
                f"the keys cannot be fetched: {error.message}",
            ) from None
        if answer.status != 200:
            raise AuthProviderFailed(f"the keys were refused with status {answer.status}")
        return answer.body
