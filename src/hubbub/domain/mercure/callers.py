"""Callers of the Mercure door: what their tokens allow, and whether they may still read."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub.domain.errors import InvalidToken
from hubbub.domain.mercure.selectors import (
    ALL,
    MAX_SELECTOR_CHARS,
    MAX_SELECTORS,
    NOTHING,
    Selectors,
)
from hubbub.domain.names import MERCURE_LOG
from hubbub.domain.permissions import ANONYMOUS, DoorReader, Identity, granted
from hubbub.domain.rules import HubConfiguration

MAX_CLAIM_CHARS = 8192
MAX_PAYLOAD_BYTES = 4096


class MercureClaim(msgspec.Struct, frozen=True):
    """The claim `mercure` of a token. Without `publish` or `subscribe` it does not allow that; an
    empty `subscribe` allows public updates."""

    publish: tuple[str, ...] | None = None
    subscribe: tuple[str, ...] | None = None
    payload: Any = None


class MercureCaller(msgspec.Struct, frozen=True):
    """`publish` and `subscribe` are the selectors of topics to which the caller may publish, and of
    private updates that it may read. None: it may not publish."""

    identity: Identity
    publish: Selectors | None
    subscribe: Selectors
    payload: Any = None
    fingerprint: str | None = None
    """The hub's key that verified the token."""
    claims: bool = False
    """The token has the claim `mercure`."""

    def reader(self) -> MercureReader:
        return MercureReader(
            self.identity,
            channel=MERCURE_LOG,
            fingerprint=self.fingerprint,
            claims=self.claims,
        )


NOBODY = MercureCaller(ANONYMOUS, None, NOTHING)


class MercureReader(DoorReader, frozen=True, kw_only=True):
    """Reads the hub's updates through the Mercure door."""

    fingerprint: str | None = None
    claims: bool = False

    def is_admitted(self, configuration: HubConfiguration) -> bool:
        """A token of one of the hub's keys is admitted while the hub has the key, and one of a
        trusted issuer by its claim. Other callers need a grant for the log, or rules that make the
        log public."""
        if self.fingerprint is not None:
            return any(
                key.subscribe and key.fingerprint == self.fingerprint
                for key in configuration.mercure_keys.values()
            )
        if self.claims:
            return True
        identity, settings = self.identity, configuration.settings
        if identity.trusted or granted(identity.grants, "subscribe", MERCURE_LOG):
            return True
        rules = configuration.rules_for(MERCURE_LOG)
        if identity.authenticated:
            return rules.public
        return settings.allow_anonymous and rules.public and rules.allow_anonymous


def caller_of(identity: Identity) -> MercureCaller:
    """The caller with a token of the hub itself: services publish and read everything; a grant for
    the log lets clients publish public and private updates, and read public ones."""
    if identity.trusted:
        return MercureCaller(identity, ALL, ALL)
    publish = ALL if granted(identity.grants, "publish", MERCURE_LOG) else None
    return MercureCaller(identity, publish, NOTHING)


def read_claim(value: object) -> MercureClaim:
    """Raises `InvalidToken`."""
    try:
        claim = msgspec.convert(value, MercureClaim)
    except msgspec.ValidationError as error:
        raise InvalidToken(f"the token's claim `mercure` is not valid: {error}") from None
    for name in ("publish", "subscribe"):
        texts = getattr(claim, name) or ()
        size = sum(map(len, texts))
        if len(texts) > MAX_SELECTORS or size > MAX_CLAIM_CHARS:
            raise InvalidToken(
                f"`mercure.{name}` of the token has {len(texts)} selectors of {size} characters; "
                f"at most {MAX_SELECTORS} and {MAX_CLAIM_CHARS} are allowed"
            )
        if any(not 0 < len(text) <= MAX_SELECTOR_CHARS for text in texts):
            raise InvalidToken(
                f"a selector of `mercure.{name}` is empty or has more than {MAX_SELECTOR_CHARS} "
                "characters"
            )
    if claim.payload is not None and len(msgspec.json.encode(claim.payload)) > MAX_PAYLOAD_BYTES:
        raise InvalidToken(f"`mercure.payload` takes more than {MAX_PAYLOAD_BYTES} bytes as JSON")
    return claim
