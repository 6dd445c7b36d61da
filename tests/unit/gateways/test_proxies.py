"""Forwarded headers: the client is the last address that no trusted proxy vouches past."""

from __future__ import annotations

import pytest

from hubbub.gateways.proxies import TrustedProxies

TRUSTED = TrustedProxies(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])


@pytest.mark.spec("OPS-04")
@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.5", "1.1.1.1", "203.0.113.5"),
        ("10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "203.0.113.5, 10.0.0.2, 192.0.2.1", "203.0.113.5"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.5, garbage", "10.0.0.1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
        ("fd00::1", "203.0.113.5", "203.0.113.5"),
        ("::ffff:10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("", "203.0.113.5", ""),
    ],
)
def test_the_client_behind_proxies(peer: str, forwarded: str, client: str) -> None:
    headers = {b"x-forwarded-for": forwarded.encode()}
    assert TRUSTED.client_of(peer, headers, encrypted=False) == (client, "http")


@pytest.mark.spec("OPS-04")
def test_the_scheme_is_the_listeners_unless_a_trusted_proxy_says_otherwise() -> None:
    headers = {b"x-forwarded-proto": b"https"}
    assert TRUSTED.client_of("203.0.113.5", headers, encrypted=False)[1] == "http"
    assert TRUSTED.client_of("10.0.0.1", headers, encrypted=False)[1] == "https"
    assert TRUSTED.client_of("10.0.0.1", {}, encrypted=True)[1] == "https"
    strange = {b"x-forwarded-proto": b"javascript"}
    assert TRUSTED.client_of("10.0.0.1", strange, encrypted=False)[1] == "http"
