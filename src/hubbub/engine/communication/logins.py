"""Logins of peers: session tokens, and messages that wait for their sender's login."""

from __future__ import annotations

import hmac
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import msgspec

from hubbub.domain.communication.control import auth_message
from hubbub.domain.communication.messages import ERROR, FAILED, REPLY, PeerMessage, digest
from hubbub.domain.communication.settings import CommunicationSettings
from hubbub.domain.errors import HubbubError
from hubbub.engine.communication.knowledge import PeerKnowledge
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.storage.communication import CommunicationStore, PeerToken

logger = logging.getLogger(__name__)

MOST_HELD = 100
"""Maximum number of held messages per peer."""
MOST_PEERS = 1000
"""Maximum number of peers per hub with held messages: anybody may claim to be a peer."""
HELD_MS = 86_400_000
NOTICE_SECONDS = 60.0
_MOST_NOTICED = 10_000
_TOKEN_BYTES = 24


def hash_token(token: str) -> bytes:
    return sha256(token.encode()).digest()


class Held(msgspec.Struct, frozen=True):
    """A message that waits for its sender's login."""

    message: PeerMessage
    at: int
    """Time of arrival, in milliseconds since 1970."""
    serial: int
    """The message's serial in the log."""

    @property
    def until(self) -> int:
        """When the message times out, in milliseconds since 1970."""
        ttl_ms = self.message.ttl_ms
        return self.at + (min(ttl_ms, HELD_MS) if ttl_ms else HELD_MS)


class Logins:
    """The logins of one hub, at the owner of its log."""

    def __init__(
        self, hub: str, store: CommunicationStore, knowledge: PeerKnowledge, clock: Clock
    ) -> None:
        self._hub = hub
        self._store = store
        self._knowledge = knowledge
        self._clock = clock
        self._held: dict[str, list[Held]] = {}
        """Held messages by peer."""
        self._storing: Counter[str] = Counter()
        """Messages by peer that will be held once they are stored."""
        self._noticed: OrderedDict[str, float] = OrderedDict()

    async def log_in(self, request: PeerMessage, settings: CommunicationSettings) -> PeerMessage:
        """Returns the response to an AUTH/REQUEST."""
        peer, password = request.sender, request.content
        try:
            vouched = isinstance(password, str) and await self._knowledge.authenticate(
                peer, password
            )
            if not vouched:
                return auth_message(request, FAILED)
            token = randomness.token_urlsafe(_TOKEN_BYTES)
            expires_at = int((self._clock.now() + settings.token_seconds) * 1000)
            await self._store.save_peer_token(
                PeerToken(self._hub, peer, hash_token(token), expires_at)
            )
        except HubbubError as error:
            logger.warning("hub %s: login of %r failed: %s", self._hub, peer, error)
            return auth_message(request, ERROR, "the login cannot be checked now; try again later")
        return auth_message(request, REPLY, token)

    async def holds(self, message: PeerMessage, settings: CommunicationSettings) -> bool:
        """Whether the message carries a valid token of its sender. Raises `HubbubError`."""
        if settings.tokens == "off" or (
            settings.tokens == "optional" and not message.security_token
        ):
            return True
        if not message.security_token:
            return False
        known = await self._store.read_peer_token(self._hub, message.sender)
        if known is None or known.expires_at < self._clock.now() * 1000:
            return False
        return hmac.compare_digest(known.token_hash, hash_token(message.security_token))

    def notice(self, message: PeerMessage) -> PeerMessage | None:
        """Asks the peer to log in again, at most once a minute."""
        now = self._clock.monotonic()
        last = self._noticed.get(message.sender)
        if last is not None and now - last < NOTICE_SECONDS:
            return None
        self._noticed[message.sender] = now
        self._noticed.move_to_end(message.sender)
        if len(self._noticed) > _MOST_NOTICED:
            self._noticed.popitem(last=False)
        return auth_message(message, FAILED, suffix=".notice")

    def may_hold(self, peer: str) -> bool:
        waiting = len(self._held.get(peer, ())) + self._storing[peer]
        if not waiting and len(self._held) + len(self._storing) >= MOST_PEERS:
            return False
        return waiting < MOST_HELD

    @contextmanager
    def storing(self, peer: str) -> Iterator[None]:
        """A message of the peer that is being stored counts as held."""
        self._storing[peer] += 1
        try:
            yield
        finally:
            self._storing[peer] -= 1
            if not self._storing[peer]:
                del self._storing[peer]

    def hold(self, *held: Held) -> None:
        for each in held:
            self._held.setdefault(each.message.sender, []).append(each)

    def take_held(self, peer: str) -> list[Held]:
        """Removes and returns the peer's held messages in order, after a login."""
        return self._held.pop(peer, [])

    def take_free(self, settings: CommunicationSettings) -> list[Held]:
        """Removes and returns messages that these settings would not hold, in order of arrival. For
        messages read from disk it is unknown whether they had a token."""
        if settings.tokens == "required":
            return []
        found = [each for held in self._held.values() for each in held]
        free: list[Held] = []
        self._held.clear()
        for each in sorted(found, key=lambda each: each.serial):
            if settings.tokens == "off" or not each.message.security_token:
                free.append(each)
            else:
                self.hold(each)
        return free

    def take_one(self, message: PeerMessage) -> Held | None:
        """Removes and returns the held message after it was sent again with a valid token."""
        held = self._held.get(message.sender, [])
        for each in held:
            if each.message.id == message.id and digest(each.message) == digest(message):
                held.remove(each)
                if not held:
                    del self._held[message.sender]
                return each
        return None

    def forget(self, peer: str) -> list[Held]:
        """Removes and returns the held messages of a peer that is being erased."""
        self._noticed.pop(peer, None)
        return self.take_held(peer)

    def take_expired(self) -> list[Held]:
        """Removes and returns messages that were held for too long."""
        now = self._clock.now() * 1000
        expired = []
        for peer, held in list(self._held.items()):
            expired += [each for each in held if each.until <= now]
            left = [each for each in held if each.until > now]
            if left:
                self._held[peer] = left
            else:
                del self._held[peer]
        return expired
