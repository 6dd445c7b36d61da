"""Tokens for single channels, which a session presents with a subscription in addition to its own
token."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hubbub.domain.errors import BadRequest, InvalidToken, NotPermitted
from hubbub.domain.patterns import is_pattern
from hubbub.domain.permissions import Grant, Reader, granted
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.access.credentials import CredentialCheck
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.expiries import Expiries


class ChannelTokens:
    """A channel token permits a subscription to one channel: it is issued to the session's user or
    to no particular user, and has a grant for the channel. The subscription ends with the token."""

    def __init__(self, credentials: CredentialCheck, expiries: Expiries) -> None:
        self._credentials = credentials
        self._expiries = expiries

    async def take(self, session: SessionState, wanted: SubscribeItem) -> None:
        """Verifies a token. Raises `BadRequest`, `InvalidToken`, `NotPermitted`, `RateLimited` and
        `AuthProviderFailed`."""
        channel, token = wanted.channel, wanted.token
        if token is None:
            return
        if is_pattern(channel):
            raise BadRequest(f"{channel!r} is a pattern; a token for a channel names one channel")
        shown = await self._credentials.verify_fetching(token, session.hub.name, session.address)
        user = session.identity.user_id
        if shown.user_id not in (None, user):
            raise InvalidToken(f"the token for {channel!r} was made for another user")
        if not granted(shown.grants, "subscribe", channel):
            raise NotPermitted(f"the token gives no permission to subscribe to {channel!r}")
        reader = msgspec.structs.replace(
            session.identity,
            user_id=user,
            grants=(*session.identity.grants, Grant(channel, subscribe=True)),
            expires_at=shown.expires_at,
            token_id=shown.token_id,
            issued_at=shown.issued_at,
            foreign=shown.foreign,
            issuer=shown.issuer,
        )
        if session.channel_readers is None:
            session.channel_readers = {}
        session.channel_readers[channel] = Reader(reader)
        self._expiries.watch(session)


def drop_ended(session: SessionState, channels: Iterable[str]) -> bool:
    """Drops the tokens for these channels that expired or were revoked. Returns whether there were
    any."""
    ended = False
    for channel in channels:
        reader = (session.channel_readers or {}).get(channel)
        try:
            if reader is not None:
                session.tokens.check(reader.identity, session.hub.name)
        except InvalidToken:
            session.drop_token(channel)
            ended = True
    return ended
