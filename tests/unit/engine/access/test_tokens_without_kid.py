"""Tokens of libraries that do not say which key they signed with."""

from __future__ import annotations

import jwt
import pytest

from harness.clock import FakeClock
from hubbub.domain.errors import InvalidToken
from hubbub.engine.access.tokens import KeyRing, SigningKey, Tokens

pytestmark = pytest.mark.spec("ADMIN-03", "LIVE-06")

OLD, NEW = SigningKey("old", b"o" * 64), SigningKey("new", b"n" * 64)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(
        session_keys=(NEW, OLD), admin_keys=(SigningKey("admin", b"a" * 64),), issuer="hubbub",
        clock=FakeClock(),
    )  # fmt: skip


def token(secret: bytes, **header: str) -> str:
    claims = {"iss": "hubbub", "hub": "acme", "sub": "ann", "exp": 2**40}
    return jwt.encode(claims, secret, "HS256", headers=header)


@pytest.mark.parametrize("key", [OLD, NEW], ids=["old", "new"])
def test_a_token_without_kid_is_tried_against_the_known_keys(
    tokens: Tokens, key: SigningKey
) -> None:
    assert tokens.verify(token(key.secret), "acme").user_id == "ann"


def test_a_token_of_a_key_that_is_new_has_the_keys_read_again() -> None:
    admin = (SigningKey("admin", b"a" * 64),)
    tokens = Tokens(
        session_keys=(OLD,), admin_keys=admin, issuer="hubbub", clock=FakeClock(),
        read_keys=lambda: KeyRing((NEW, OLD), admin),
    )  # fmt: skip
    assert tokens.verify(token(NEW.secret), "acme").user_id == "ann"


def test_the_error_names_the_real_reason(tokens: Tokens) -> None:
    with pytest.raises(InvalidToken, match=r"names no key .* no key that is known here"):
        tokens.verify(token(b"x" * 64), "acme")
    with pytest.raises(InvalidToken, match="names the key 'other'"):
        tokens.verify(token(NEW.secret, kid="other"), "acme")
    with pytest.raises(InvalidToken, match="Signature verification failed"):
        tokens.verify(token(OLD.secret, kid="new"), "acme")


def test_no_key_of_clients_signs_for_administrators(tokens: Tokens) -> None:
    with pytest.raises(InvalidToken, match="names no key"):
        tokens.verify(token(NEW.secret, typ="admin"), "acme")
