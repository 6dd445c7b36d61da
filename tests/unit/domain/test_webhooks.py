"""Webhooks without I/O: ids, callbacks, addresses, leases, signatures, retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.callbacks import (
    Reach,
    check_callback,
    literal_address,
    may_reach,
)
from hubbub.domain.errors import BadRequest
from hubbub.domain.names import check_name
from hubbub.domain.webhooks import (
    ALGORITHMS,
    PendingVerification,
    Webhook,
    check_algorithm,
    check_key,
    check_secret,
    lease_seconds,
    retry_delay,
    signature,
    verify_signature,
    webhook_id,
    websub_channel,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "target", "authority"),
    [
        ("http://a.example", "a.example", 80, "/", "a.example"),
        ("https://A.example/x?y=1&z=%20#part", "a.example", 443, "/x?y=1&z=%20", "a.example"),
        ("http://127.0.0.1:8085/", "127.0.0.1", 8085, "/", "127.0.0.1:8085"),
        ("http://[2001:DB8::1]:81/a", "2001:db8::1", 81, "/a", "[2001:db8::1]:81"),
        (
            "http://bücher.example/ü",
            "xn--bcher-kva.example",
            80,
            "/%C3%BC",
            "xn--bcher-kva.example",
        ),
        ("http://a.example?x=y", "a.example", 80, "/?x=y", "a.example"),
    ],
)
def test_a_callback_is_taken_apart(
    url: str, host: str, port: int, target: str, authority: str
) -> None:
    parts = check_callback(url)
    assert (parts.host, parts.port, parts.target, parts.authority) == (
        host,
        port,
        target,
        authority,
    )
    assert parts.tls == url.startswith("https")


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "host"),
        ("nonsense", "host"),
        ("ftp://a.example/", "http://"),
        ("file:///etc/passwd", "host"),
        ("http:///path", "host"),
        ("http://a.example:0/", "port"),
        ("http://a.example:65536/", "port"),
        ("http://a.example:x/", "port"),
        ("http://a.example:/", "port"),
        ("http://u:p@a.example/", "password"),
        ("http://a.example/ x", "contains"),
        ("http://a.example/\r\nX: y", "contains"),
        ("http://a.exa\\mple/", "contains"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[::1", "host"),
        ("http://a..b/", "host"),
        ("http://-a.example/", "host"),
        ("http://a.example/" + "x" * 2000, "2000"),
    ],
)
def test_a_callback_that_cannot_be_used_is_refused_with_the_reason(url: str, word: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_callback(url)
    assert word in refused.value.message
    assert "u:p" not in refused.value.message


@given(st.text(max_size=60))
def test_any_text_is_a_callback_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://a.example/{text}"):
        try:
            parts = check_callback(url)
        except BadRequest:
            continue
        head = f"{parts.target} {parts.authority} {parts.host}"
        assert head.isascii()
        assert head.isprintable()


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
        *("255.255.255.255", "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fec0::1"),
        *("ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "2002:7f00:1::", "2002:a00:1::1"),
        *("2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "100::1", "nonsense", ""),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not may_reach(address, "public")


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.215.14", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_addresses_that_are_public(address: str) -> None:
    assert may_reach(address, "public")


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("10.65535", "10.0.255.255"),
        ("::ffff:7f00:1", "::ffff:7f00:1"),
    ],
)
def test_an_address_is_known_in_every_spelling(host: str, address: str) -> None:
    assert literal_address(host) == address
    assert not may_reach(address, "public")


@pytest.mark.parametrize("host", ["a.example", "1.2.3.4.5", "256.1.1.1", "08.example", "09"])
def test_a_name_is_no_address(host: str) -> None:
    assert literal_address(host) is None


def test_the_id_is_the_same_for_the_same_subscription_only() -> None:
    first = webhook_id("light", "demo", "news", "http://a/")
    assert first == webhook_id("light", "demo", "news", "http://a/")
    others = {
        webhook_id("websub", "demo", "news", "http://a/"),
        webhook_id("light", "other", "news", "http://a/"),
        webhook_id("light", "demo", "sport", "http://a/"),
        webhook_id("light", "demo", "news", "http://b/"),
        webhook_id("light", "demo", "news", "http://a/", "u:ann"),
        webhook_id("light", "demo", "news", "http://a/", "u:eve"),
    }
    assert len(others | {first}) == 7


def test_secrets_are_not_shown() -> None:
    pending = PendingVerification("subscribe", 0, secret=b"hidden")
    webhook = Webhook("h", "c", "1", "plain", "http://a:81/", "c", secret=b"hidden", key=b"hidden")
    assert "hidden" not in repr(webhook)
    assert webhook.host == "a:81"
    assert "hidden" not in repr(Webhook("h", "c", "1", "plain", "u", "c", pending=pending))


@given(st.text(max_size=400))
def test_every_topic_url_has_a_channel(url: str) -> None:
    name = websub_channel(url)
    check_name(name, "channel")
    check_name(f"{name}.dead", "channel")
    assert name.startswith("websub:")
    assert websub_channel(url) == name


def test_a_topic_url_is_its_channels_name_where_it_can_be() -> None:
    assert websub_channel("http://a.example/feed?x=1") == "websub:http://a.example/feed?x=1"
    assert websub_channel("http://a.example/*#") == "websub:http://a.example/%2A%23"


@pytest.mark.spec("WEB-03")
@pytest.mark.parametrize(
    ("asked", "granted"),
    [(None, 864_000), ("", 864_000), ("0", 864_000), ("1", 60), ("3600", 3600), (1e30, 2_592_000)],
)
def test_a_lease_is_brought_within_bounds(asked: str | float | None, granted: int) -> None:
    assert lease_seconds(asked) == granted


@pytest.mark.spec("WEB-03")
@pytest.mark.parametrize("asked", ["-1", "ten", "nan", "inf", "1e999", "-0.5", "9" * 5000])
def test_a_lease_that_is_no_time_is_refused(asked: str) -> None:
    if asked.isdecimal():
        assert lease_seconds(asked[:300]) == 2_592_000
        return
    with pytest.raises(BadRequest):
        lease_seconds(asked)


@pytest.mark.spec("WEB-02", "WEB-03")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_holds_for_its_body_and_secret_only(algorithm: str) -> None:
    made = signature(b"secret", check_algorithm(algorithm), b"body")
    assert made.startswith(f"{algorithm}=")
    assert verify_signature(b"secret", made, b"body")
    assert verify_signature(b"secret", made.upper().replace(algorithm.upper(), algorithm), b"body")
    for wrong in (made[:-1], "", "md5=00", f"{algorithm}=é", made.replace("=", "")):
        assert not verify_signature(b"secret", wrong, b"body")
    assert not verify_signature(b"other", made, b"body")
    assert not verify_signature(b"secret", made, b"other")


def test_secrets_keys_and_algorithms_have_bounds() -> None:
    assert check_secret(None) is None
    assert check_secret(b"x" * 199) == b"x" * 199
    assert check_key(b"k" * 16) == b"k" * 16
    for wrong in (b"", b"x" * 200):
        with pytest.raises(BadRequest):
            check_secret(wrong)
    for wrong in (b"k" * 15, b"k" * 65):
        with pytest.raises(BadRequest):
            check_key(wrong)
    with pytest.raises(BadRequest):
        check_algorithm("md5")


def test_retries_wait_longer_each_time_up_to_a_bound() -> None:
    delays = [retry_delay(attempt, 0.0, 1.0, 60.0) for attempt in range(1, 9)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    assert retry_delay(10**9, 1.0, 1.0, 60.0) == 75


@pytest.mark.spec("WEB-05")
@pytest.mark.parametrize(
    ("address", "least"),
    [
        ("93.184.216.34", "public"),
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.1.2.3", "private"),
        ("192.168.0.9", "private"),
        ("fd00::1", "private"),
        ("169.254.169.254", None),
        ("fe80::1", None),
        ("0.0.0.0", None),
        ("224.0.0.1", None),
        ("255.255.255.255", None),
        ("::ffff:169.254.169.254", None),
        ("nonsense", None),
    ],
)
def test_a_hub_reaches_no_further_than_its_setting_says(address: str, least: str | None) -> None:
    steps: tuple[Reach, ...] = ("public", "loopback", "private")
    allowed = [reach for reach in steps if may_reach(address, reach)]
    assert allowed == ([] if least is None else list(steps[steps.index(least) :]))


@pytest.mark.spec("SEC-02")
@pytest.mark.parametrize(
    "address",
    [
        *("192.0.0.192", "168.63.129.16", "100.100.100.200", "169.254.169.254", "192.0.0.8"),
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fe80::a9fe:a9fe"),
        *("192.88.99.1", "198.18.0.1", "203.0.113.1", "240.0.0.1", "255.255.255.255", "0.1.2.3"),
        *("2001:db8::1", "3fff::1", "5f00::1", "100::1", "2001:20::1", "4000::1", "fec0::1"),
        *("2002:0808:0808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::808:808"),
        *("::ffff:169.254.169.254", "64:ff9b::a83f:8110", "::8.8.8.8", "::"),
        "2606:4700::5efe:a9fe:a9fe",
    ],
)
def test_metadata_and_special_purpose_addresses_are_out_of_reach_for_everyone(address: str) -> None:
    assert not may_reach(address, "public")
    assert not may_reach(address, "loopback")
    assert not may_reach(address, "private")
