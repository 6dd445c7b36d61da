"""The form in which the store keeps settings."""

from __future__ import annotations

import msgspec
import pytest

from hubbub.domain.rules import (
    AuthProvider,
    ChannelSettings,
    HubSettings,
    Quotas,
    RpcRoute,
    Rules,
    TrustedIssuer,
)
from hubbub.domain.setting import Setting
from hubbub.domain.stored_settings import decode_setting, encode_setting

ISSUER = TrustedIssuer(issuer="i", audience="a", jwks_url="https://keys.example")

STORED = [
    (Rules(), b"{}"),
    (Rules(live_history=True, max_age_seconds=60), b'{"live_history":true,"max_age_seconds":60}'),
    (HubSettings(quotas=Quotas()), b"{}"),
    (
        HubSettings(default_rules="open", quotas=Quotas(stored_bytes=9), trusted_issuers=(ISSUER,)),
        b'{"default_rules":"open",'
        b'"trusted_issuers":[{"issuer":"i","audience":"a","jwksUrl":"https://keys.example"}],'
        b'"quotas":{"stored_bytes":9}}',
    ),
    (
        AuthProvider("http://a", {"X-Key": "k"}, 1.5),
        b'{"url":"http://a","headers":{"X-Key":"k"},"timeout_seconds":1.5}',
    ),
    (RpcRoute("cart.*", "nats:a"), b'{"method":"cart.*","url":"nats:a"}'),
    (ChannelSettings(metadata={"max_age": 1}), b'{"metadata":{"max_age":1}}'),
]


@pytest.mark.spec("ADMIN-01")
@pytest.mark.parametrize(("value", "stored"), STORED)
def test_the_store_keeps_attribute_names_and_leaves_defaults_out(
    value: Setting, stored: bytes
) -> None:
    assert encode_setting(value) == stored
    assert decode_setting(stored, type(value)) == value


def test_what_an_earlier_version_stored_with_defaults_is_read() -> None:
    assert decode_setting(b'{"quotas":{},"user_channel":false}', HubSettings) == HubSettings()


def test_a_field_that_nobody_knows_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        decode_setting(b'{"colour":1}', Rules)
