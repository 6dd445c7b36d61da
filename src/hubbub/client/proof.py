"""A client's authentication: a token, or credentials for the hub's auth provider."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import msgspec

from hubbub.domain.errors import AuthProviderFailed, BadRequest, HubbubError
from hubbub.domain.requests import Authenticate

Blob = str | bytes | dict[str, object]
Token = str | Callable[[], str | Awaitable[str]]
Credentials = Blob | Callable[[], Blob | Awaitable[Blob]]

T = TypeVar("T")


class Proof:
    """Token or credentials of the application: a value, or a function that returns a new one each
    time."""

    def __init__(self, token: Token | None = None, credentials: Credentials | None = None) -> None:
        if token is not None and credentials is not None:
            raise BadRequest("give either a token or credentials, not both")
        self._token = token
        self._credentials = credentials

    @property
    def given(self) -> bool:
        return self._token is not None or self._credentials is not None

    @property
    def renewable(self) -> bool:
        """Whether a function could return a new one after a refusal."""
        return callable(self._token) or callable(self._credentials)

    async def token(self) -> str | None:
        """The token, if the client authenticates with one."""
        return None if self._token is None else await _value(self._token)

    async def request(self) -> Authenticate:
        if self._credentials is None:
            return Authenticate(token=await self.token())
        credentials: Blob = await _value(self._credentials)
        if isinstance(credentials, dict):
            credentials = msgspec.json.encode(credentials)
        written = credentials.encode() if isinstance(credentials, str) else credentials
        return Authenticate(credentials=written)


async def _value(given: T | Callable[[], T | Awaitable[T]]) -> T:
    """Raises `AuthProviderFailed` if the application's function fails."""
    if not callable(given):
        return given
    try:
        made = given()
        return cast(T, await made if inspect.isawaitable(made) else made)
    except HubbubError:
        raise
    except Exception as error:
        raise AuthProviderFailed(f"there is no proof of who this is: {error}") from error
