"""WebSub: forms, queries, and the names of topics."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import BadRequest, HubbubError, Malformed
from hubbub.protocols.websub import (
    Publication,
    WebSubRequest,
    hub_url,
    links,
    own_topic,
    read_form,
    read_request,
    topic_url,
)

pytestmark = pytest.mark.spec("WEB-03")

CALLBACK = "https://sub.example.org/cb?id=1&b=%20"
TOPIC = "https://example.org/feed?a=b"
ASKED = {"hub.mode": "subscribe", "hub.callback": CALLBACK, "hub.topic": TOPIC}


def form(**more: str) -> bytes:
    named = {f"hub.{name}": value for name, value in more.items()}
    return urlencode({**ASKED, **named}).encode()


def test_a_subscription_is_read_from_a_form() -> None:
    body = form(lease_seconds="3600", secret="s3cret", algorithm="sha512")

    assert read_request(read_form(body)) == WebSubRequest(
        "subscribe", CALLBACK, TOPIC, "3600", b"s3cret", "sha512"
    )
    assert read_request(read_form(form(mode="unsubscribe"))) == WebSubRequest(
        "unsubscribe", CALLBACK, TOPIC
    )


def test_parameters_that_nobody_knows_are_ignored() -> None:
    body = form(verify="sync", verify_token="x") + b"&hub.foo=1&foo=1&foo=2&%00=x"

    assert read_request(read_form(body)) == WebSubRequest("subscribe", CALLBACK, TOPIC)


def test_empty_optional_parameters_are_as_good_as_none() -> None:
    body = form(lease_seconds="", secret="", algorithm="")

    request = read_request(read_form(body))
    assert isinstance(request, WebSubRequest)
    assert request.secret is None
    assert not request.lease_seconds


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"mode": ""}, "hub.mode"),
        ({"mode": "listen"}, "listen"),
        ({"mode": "denied"}, "denied"),
        ({"callback": ""}, "hub.callback"),
        ({"topic": ""}, "hub.topic"),
        ({"callback": "not a URL"}, "callback"),
        ({"callback": "ftp://example.org/"}, "callback"),
        ({"callback": "//example.org/"}, "callback"),
        ({"callback": "http://"}, "callback"),
        ({"callback": "http://example.org:99999/"}, "callback"),
        ({"callback": "http://ann:secret@example.org/"}, "callback"),
        ({"callback": "http://example.org/" + "x" * 2000}, "callback"),
        ({"topic": "news"}, "topic"),
        ({"topic": "file:///etc/passwd"}, "topic"),
        ({"topic": "http://exa mple.org/"}, "topic"),
        ({"topic": "http://example.org:0x50/"}, "topic"),
        ({"topic": "http://ann:secret@example.org/"}, "topic"),
        ({"topic": 'http://example.org/">; rel="hub'}, "topic"),
        ({"topic": "http://example.org/\r\nX: y"}, "topic"),
        ({"topic": "http://example.org/" + "x" * 2000}, "topic"),
        ({"secret": "x" * 200}, "secret"),
        ({"algorithm": "md5"}, "algorithm"),
    ],
)
def test_what_is_missing_or_wrong_is_named(wrong: dict[str, str], named: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_request(read_form(form(**wrong)))
    assert named in refused.value.message
    assert len(refused.value.message) < 300
    assert "secret@" not in refused.value.message
    assert "xxxxxxxxxx" * 10 not in refused.value.message


def test_one_parameter_that_is_there_twice_is_refused() -> None:
    with pytest.raises(Malformed, match=r"hub\.topic"):
        read_request(read_form(form() + b"&hub.topic=http%3A%2F%2Fexample.org"))


@pytest.mark.parametrize("body", [b"\xff=1", b"a=%ff", b"&".join([b"a=1"] * 301)])
def test_a_body_that_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_form(body)


@pytest.mark.parametrize("name", ["hub.url", "hub.topic"])
def test_a_ping_names_one_topic_or_several(name: str) -> None:
    body = urlencode([("hub.mode", "publish"), (name, TOPIC), (name, "http://b/"), (name, TOPIC)])

    assert read_request(read_form(body.encode())) == Publication((TOPIC, "http://b/"))


def test_a_ping_without_a_topic_or_with_too_many_is_refused() -> None:
    many = [("hub.url", f"http://example.org/{number}") for number in range(101)]
    with pytest.raises(Malformed, match=r"hub\.url"):
        read_request([("hub.mode", "publish")])
    with pytest.raises(BadRequest, match="101"):
        read_request([("hub.mode", "publish"), *many])


@given(st.text(min_size=1, max_size=50), st.text(min_size=1, max_size=50))
def test_the_address_of_a_channel_leads_back_to_it(hub: str, channel: str) -> None:
    if not (hub + channel).isprintable():
        return
    base = "https://hub.example.org/prefix"
    url = topic_url(base, hub, channel)

    assert own_topic(url, ["https://other", base]) == (hub, channel)


@pytest.mark.parametrize(
    "topic",
    [
        "https://hub.example.org.evil/v1/hubs/a/channels/b/messages",
        "http://hub.example.org/v1/hubs/a/channels/b/messages",
        "https://hub.example.org/feed",
    ],
)
def test_other_addresses_are_topics_of_others(topic: str) -> None:
    assert own_topic(topic, ["https://hub.example.org"]) is None


@pytest.mark.parametrize(
    "path",
    [
        "hubs/a/channels/b/messages?x=1",
        "hubs/a/channels/b",
        "hubs/a/channels//messages",
        "hubs/a/b/channels/c/messages",
        "hubs/a/channels/%ff/messages",
        "admin/hubs",
    ],
)
def test_other_places_of_the_hub_are_no_topics(path: str) -> None:
    with pytest.raises(BadRequest, match="not a channel"):
        own_topic(f"https://hub.example.org/v1/{path}", ["https://hub.example.org"])


def test_discovery_links_name_hub_and_topic() -> None:
    hub, topic = hub_url("http://a", "demo"), topic_url("http://a", "demo", "news, ö>")

    assert links(hub, topic) == (
        '<http://a/v1/hubs/demo/websub>; rel="hub", '
        '<http://a/v1/hubs/demo/channels/news%2C%20%C3%B6%3E/messages>; rel="self"'
    )


@given(st.lists(st.tuples(st.sampled_from([*ASKED, "hub.url", "hub.secret"]), st.text())))
def test_any_parameters_are_read_or_refused_with_an_error_of_the_hub(
    parameters: list[tuple[str, str]],
) -> None:
    with suppress(HubbubError):
        read_request(parameters)
