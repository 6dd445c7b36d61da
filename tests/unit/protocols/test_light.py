"""Light-PubSubHubbub: the bodies and parameters of its requests, as printed and as varied."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import BadRequest, HubbubError, InvalidName, Malformed
from hubbub.domain.webhooks import WantedWebhook
from hubbub.protocols.light import (
    Registration,
    Unsubscription,
    callback_of,
    read_registration,
    read_subscription,
    read_unsubscription,
)

pytestmark = pytest.mark.spec("WEB-01")

PRINTED = b'{"address":"127.0.0.1","port":"50355","topic":"sports"}'


def said(**more: object) -> bytes:
    return json.dumps({"address": "127.0.0.1", "port": "50355", "topic": "sports", **more}).encode()


@pytest.mark.parametrize("body", [b"sports", b" sports\r\n", b'{"topic": "sports"}'])
def test_a_topic_is_registered_by_its_id(body: bytes) -> None:
    assert read_registration(body) == Registration("sports")


@pytest.mark.spec("WEB-02")
def test_a_key_for_the_owner_is_asked_for_in_the_body_or_beside_it() -> None:
    assert read_registration(b'{"topic": "sports", "key": true}').key
    assert read_registration(b"sports", with_key=True).key


@pytest.mark.parametrize("body", [b"", b" \r\n", b"a" * 256, b"a*", b"a\x00b", b'{"topic": ""}'])
def test_an_id_that_can_name_no_channel_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidName):
        read_registration(body)


@pytest.mark.parametrize("body", [b"\xff", b'{"id": "sports"}', b'{"topic": 1}', b'{"topic"'])
def test_a_registration_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_registration(body)


@pytest.mark.parametrize(
    "body", [PRINTED, PRINTED + b"\r\n", said(port=50355), said(port=" 50355")]
)
def test_a_subscriber_is_address_port_and_topic(body: bytes) -> None:
    """The figure's Content-Length counts a line break that is not printed."""
    assert read_subscription(body) == WantedWebhook("light", "sports", "http://127.0.0.1:50355/")


@pytest.mark.spec("WEB-02")
def test_a_subscription_may_have_a_path_a_secret_and_a_key() -> None:
    body = said(path="/in?a=b", secret="s3cret", algorithm="sha512", key="AAECAwQFBgcICQoLDA0ODw")

    assert read_subscription(body) == WantedWebhook(
        "light",
        "sports",
        "http://127.0.0.1:50355/in?a=b",
        secret=b"s3cret",
        algorithm="sha512",
        key=bytes(range(16)),
    )


@pytest.mark.parametrize(
    ("address", "callback"),
    [
        ("example.org", "http://example.org:80/"),
        ("::1", "http://[::1]:80/"),
        ("[2001:DB8::1]", "http://[2001:db8::1]:80/"),
        ("my_host-1", "http://my_host-1:80/"),
    ],
)
def test_an_address_is_an_ip_address_or_a_name(address: str, callback: str) -> None:
    assert callback_of(address, 80) == callback


@pytest.mark.parametrize(
    "address",
    [
        "",
        "http://127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1/x",
        "ann@example.org",
        "a b",
        "a\r\nb",
        "fe80::1%eth0",
        "x" * 300,
        "ex..org",
        "exämple.org ö",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadRequest) as refused:
        callback_of(address, 80)
    assert "address" in refused.value.message
    assert len(refused.value.message) < 250


@pytest.mark.parametrize("port", [0, -1, 65536, 10**30, "", "x", "80a", "-1", "0x5", "８０", "1.5"])
def test_a_wrong_port_is_refused(port: int | str) -> None:
    with pytest.raises(BadRequest, match="port"):
        callback_of("127.0.0.1", port)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"sports",
        b"[]",
        b"{}",
        b'{"address":"127.0.0.1","port":"1"}',
        said(port=None),
        said(port=1.5),
        said(port=True),
        said(secert="misspelt"),
        said(algorithm="md5"),
        said(topic=["sports"]),
        b'{"address":' + b"[" * 100_000,
    ],
)
def test_a_subscription_that_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        read_subscription(body)
    assert len(refused.value.message) < 250


@pytest.mark.spec("WEB-02")
@pytest.mark.parametrize(
    "more",
    [
        {"secret": ""},
        {"secret": "x" * 200},
        {"key": "short"},
        {"key": "no base64!"},
        {"key": "A" * 200},
        {"path": "in"},
        {"path": "/a b"},
    ],
)
def test_a_secret_key_or_path_that_is_no_good_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        read_subscription(said(**more))
    if "secret" in more:
        assert "xx" not in refused.value.message


def test_the_end_of_a_subscription_names_it_in_the_query() -> None:
    query = Unsubscription("127.0.0.1", "sports", "14746")

    ended = WantedWebhook("light", "sports", "http://127.0.0.1:14746/")
    assert read_unsubscription(query) == ended
    for attribute, name in (("address", "address"), ("topic", "idTopic"), ("port", "port")):
        with pytest.raises(Malformed, match=name):
            read_unsubscription(msgspec.structs.replace(query, **{attribute: ""}))


@given(st.binary(), st.sampled_from([read_registration, read_subscription]))
def test_any_bytes_are_read_or_refused_with_an_error_of_the_hub(body: bytes, read: object) -> None:
    assert callable(read)
    with suppress(HubbubError):
        read(body)
