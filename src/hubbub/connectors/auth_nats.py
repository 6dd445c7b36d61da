"""Auth providers over NATS: a `ProviderRequest` on the subject, answered by a `ProviderAnswer`.

The answer may also be the JSON that a provider over HTTP gives. A provider behind NATS fails as one
behind HTTP does: slowly, silently or with nonsense, and never with access.
"""

from __future__ import annotations

import msgspec
from google.protobuf.message import DecodeError

from hubbub.connectors.verdicts import (
    MAX_ANSWER_BYTES,
    Verdict,
    identity_of,
    read_verdict,
    too_large,
    too_slow,
    unreadable,
)
from hubbub.domain.errors import AuthProviderFailed
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.rules import NATS_SCHEME, AuthProvider
from hubbub.ports.broker import Broker, NobodyThere
from hubbub.ports.clock import Clock
from hubbub.ports.outgoing import Outgoing
from hubbub.protocols import hubbub_pb2 as pb

_JSON = b"{"
"""As its first byte: protobuf has none that begins with it in this message."""


class NatsAuthenticator:
    """Implements `ports.authenticator.Authenticator`."""

    def __init__(self, broker: Broker, outgoing: Outgoing, clock: Clock) -> None:
        self._broker = broker
        self._outgoing = outgoing
        self._clock = clock

    async def authenticate(
        self, provider: AuthProvider, hub: str, session_id: str, credentials: bytes
    ) -> Identity:
        request = pb.ProviderRequest(
            hub_id=hub, session_id=session_id, credentials=credentials, headers=provider.headers
        )
        try:
            subject = provider.url.removeprefix(NATS_SCHEME)
            seconds = provider.timeout_seconds
            async with self._outgoing.slot(hub, "auth", provider.url, seconds) as left:
                reply = await self._broker.request(subject, request.SerializeToString(), left)
        except TimeoutError:
            raise too_slow(hub, provider.timeout_seconds) from None
        except NobodyThere as error:
            raise AuthProviderFailed(
                f"the auth provider of hub {hub!r} cannot be reached: {error}"
            ) from None
        return identity_of(hub, _verdict(hub, reply.data), self._clock.now())


def _verdict(hub: str, answer: bytes) -> Verdict:
    if len(answer) > MAX_ANSWER_BYTES:
        raise too_large(hub)
    if answer.lstrip()[:1] == _JSON:
        return read_verdict(hub, answer)
    try:
        proto = pb.ProviderAnswer.FromString(answer)
        extra = msgspec.json.decode(proto.extra or b"{}", type=dict[str, object])
    except (DecodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise unreadable(hub) from None
    return Verdict(
        success=proto.success,
        user_id=proto.user_id,
        extra=extra,
        channels=tuple(Grant(c.channel, c.publish, c.subscribe) for c in proto.channels),
        rpcs=tuple(proto.rpcs),
        expires_in=proto.expires_in or None,
        message=proto.message or None,
    )
