"""The Mercure door over real sockets, with the requests that its clients make."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness.clock import FakeClock
from harness.cluster import Ground, start_node
from harness.raw import RawConnection, Response
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import HubConfiguration, Rules

pytestmark = [pytest.mark.spec("MERCURE-01"), pytest.mark.asyncio(loop_scope="module")]

SECRET = "!ChangeThisMercureHubJWTSecretKey!"
PUBLIC = Rules(public=True, allow_anonymous=True)
ALL = {"publish": ["*"], "subscribe": ["*"]}
PATH = "/v1/hubs/acme/mercure"


def mercure_hub(name: str = "acme", rules: Rules = PUBLIC, **more: Any) -> HubConfiguration:
    hub = open_hub(name, namespaces={"mercure": rules}, **more)
    return msgspec.structs.replace(hub, mercure_keys={"main": MercureKey(key=SECRET)})


def token(claim: Any = ALL, key: str = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    return jwt.encode({"mercure": claim, **claims}, key, algorithm)


class Event(NamedTuple):
    id: str | None
    data: str
    type: str = ""
    retry: str = ""


class Stream:
    """Reads a stream as a browser's EventSource does."""

    def __init__(self, connection: RawConnection, head: str) -> None:
        self._connection = connection
        self.head = head

    @property
    def last_event_id(self) -> str:
        return next(
            line.partition(": ")[2]
            for line in self.head.split("\r\n")
            if line.startswith("Last-Event-ID")
        )

    async def next(self) -> Event:
        while True:
            fields: dict[str, list[str]] = {}
            for line in (await self._connection.until(b"\n\n")).decode().strip("\n").split("\n"):
                name, _, value = line.partition(": ")
                fields.setdefault(name, []).append(value)
            if "data" in fields:
                one = {name: values[0] for name, values in fields.items()}
                data = "\n".join(fields["data"])
                return Event(one.get("id"), data, one.get("event", ""), one.get("retry", ""))

    async def data(self, count: int) -> list[str]:
        return [(await self.next()).data for _ in range(count)]

    async def rest(self) -> bytes:
        return await self._connection.rest()


@asynccontextmanager
async def following(
    hub: RunningHub, *topics: str, bearer: str | None = None, headers: tuple[str, ...] = (),
    path: str = PATH, **query: str,
) -> AsyncIterator[Stream]:  # fmt: skip
    target = f"{path}?{urlencode([('topic', each) for each in topics] + list(query.items()))}"
    more = (f"Authorization: Bearer {bearer}",) if bearer else ()
    async with await RawConnection.open(hub.address) as connection:
        connection.request(f"GET {target}", *more, *headers)
        head = (await connection.until(b"\r\n\r\n")).decode("latin-1")
        assert head.startswith("HTTP/1.1 200 "), head
        assert (await connection.until(b"\n\n")) == b":\n\n"
        yield Stream(connection, head)


async def ask(
    hub: RunningHub, line: str, *headers: str, body: bytes = b"", bearer: str | None = None
) -> Response:
    more = (f"Authorization: Bearer {bearer}",) if bearer else ()
    async with await RawConnection.open(hub.address) as connection:
        connection.request(line, *more, *headers, body=body)
        return await connection.response()


async def publish(
    hub: RunningHub, *topics: str, bearer: str | None = None, path: str = PATH, **fields: str
) -> Response:
    form = [("topic", each) for each in topics] + list(fields.items())
    return await ask(
        hub, f"POST {path}", "Content-Type: application/x-www-form-urlencoded",
        body=urlencode(form).encode(), bearer=bearer or token(),
    )  # fmt: skip


async def mercure(start_hub: StartHub, *hubs: HubConfiguration, **more: Any) -> RunningHub:
    return await start_hub(*(hubs or (mercure_hub(),)), mercure__enabled=True, **more)


# -- updates ---------------------------------------------------------------------------------------


async def test_an_update_reaches_each_stream_once_whose_selectors_match_a_topic(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub)
    book, user = "https://x/books/1", "https://x/users/ann"
    async with (
        following(hub, "https://x/books/{id}", book, "*") as every,
        following(hub, "https://x/users/{id}") as users,
        following(hub, "https://x/books/2") as other,
    ):
        first = await publish(hub, book, user, data="one\r\ntwo\nthree", type="t", retry="5")
        second = await publish(hub, "https://x/books/2")
        for stream in (every, users):
            event = await stream.next()
            assert event == Event(first.body.decode(), "one\ntwo\nthree", "t", "5")
        for stream in (every, other):
            assert await stream.next() == Event(second.body.decode(), "")
    assert (first.status, first.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert first.body.decode().startswith("urn:hubbub:")


async def test_a_private_update_reaches_those_alone_whose_tokens_allow_its_topic(
    start_hub: StartHub,
) -> None:
    """Thirty subscribers with random tokens, and updates with random topics; a model says who may
    read what."""
    hub, rng = await mercure(start_hub), random.Random(5)
    topics = [f"https://x/{name}/{number}" for name in "abc" for number in range(3)]
    choices = [*topics, "https://x/a/{id}", "https://x/{name}/1", "*"]

    def allows(selectors: list[str], topic: str) -> bool:
        name, number = topic.split("/")[-2:]
        return any(
            each in ("*", topic)
            or (each == "https://x/a/{id}" and name == "a")
            or (each == "https://x/{name}/1" and number == "1")
            for each in selectors
        )

    claims = [rng.sample(choices, rng.randint(0, 3)) for _ in range(30)]
    wanted = [rng.sample(choices, rng.randint(1, 3)) for _ in range(30)]
    updates = [
        (rng.sample(topics, rng.randint(1, 2)), rng.random() < 0.6, str(number))
        for number in range(150)
    ]
    async with contexts(
        [
            following(hub, *wanted[n], "https://x/end", bearer=token({"subscribe": claims[n]}))
            for n in range(30)
        ]
    ) as streams:
        for names, private, data in updates:
            more = {"private": "on"} if private else {}
            assert (await publish(hub, *names, data=data, **more)).status == 200
        await publish(hub, "https://x/end", data="end")
        for number, stream in enumerate(streams):
            expected = [
                data
                for names, private, data in updates
                if any(allows(wanted[number], each) for each in names)
                and (not private or any(allows(claims[number], each) for each in names))
            ]
            assert await stream.data(len(expected) + 1) == [*expected, "end"]


@asynccontextmanager
async def contexts(managers: list[Any]) -> AsyncIterator[list[Any]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(each) for each in managers]


async def test_a_stream_resumes_behind_each_update_without_a_gap_or_a_double(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub)
    ids = [(await publish(hub, "a", data=str(n))).body.decode() for n in range(6)]
    for number, each in enumerate(ids):
        rest = [str(n) for n in range(number + 1, 6)]
        for headers, query in (
            ((f"Last-Event-ID: {each}",), {}),
            ((), {"lastEventID": each}),
            ((), {"Last-Event-ID": each}),
        ):
            async with following(hub, "a", headers=headers, **query) as stream:
                assert stream.last_event_id == each
                await publish(hub, "b")
                assert await stream.data(len(rest)) == rest
    for unknown in ("earliest", "urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb", "urn:hubbub:x:3"):
        async with following(hub, "a", lastEventID=unknown) as stream:
            assert stream.last_event_id == "earliest"
            assert await stream.data(6) == [str(n) for n in range(6)]


async def test_history_that_is_gone_is_told_by_the_id_in_front_of_the_first_update(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub)
    ids = [(await publish(hub, "a", data=str(n))).body.decode() for n in range(4)]
    await hub.delete_before("mercure:log", 3)
    async with following(hub, "a", lastEventID=ids[0]) as stream:
        assert stream.last_event_id == ids[1]
        assert await stream.data(2) == ["2", "3"]


# -- who may ---------------------------------------------------------------------------------------


async def test_publishing_needs_a_token_that_allows_each_topic(start_hub: StartHub) -> None:
    hub = await mercure(start_hub)
    refused = {
        token({"publish": ["a"]}): (403, "not_permitted"),
        token({"publish": []}): (403, "not_permitted"),
        token({"subscribe": ["*"]}): (403, "not_permitted"),
        token(key="another secret of thirty-two bytes"): (401, "invalid_token"),
        token(algorithm="HS512", key=SECRET * 2): (401, "invalid_token"),
        token(exp=int(time.time()) - 10): (401, "invalid_token"),
        token(nbf=int(time.time()) + 100): (401, "invalid_token"),
        token({"publish": "*"}): (401, "invalid_token"),
        token({"publish": ["a"] * 101}): (401, "invalid_token"),
        token(sub=5): (401, "invalid_token"),
        jwt.encode({"mercure": ALL}, "", "none"): (401, "invalid_token"),
        "nonsense": (401, "invalid_token"),
    }
    for bearer, expected in refused.items():
        answer = await publish(hub, "a", "b", bearer=bearer)
        assert (answer.status, answer.error) == expected, bearer
    nobody = await ask(
        hub, f"POST {PATH}", "Content-Type: application/x-www-form-urlencoded", body=b"topic=a"
    )
    assert (nobody.status, nobody.error) == (401, "not_authenticated")
    assert (await publish(hub, "a", "b", bearer=token({"publish": ["a", "b"]}))).status == 200
    template = token({"publish": ["https://x/{id}"]})
    assert (await publish(hub, "https://x/1", bearer=template)).status == 200


async def test_tokens_of_the_hub_itself_work_with_their_levels_and_grants(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub, mercure_hub(rules=Rules()))
    service = hub.token("shop", level=Level.SERVICE)
    reader = hub.token("ann", grants=(Grant("mercure:log", subscribe=True),))
    writer = hub.token("bob", grants=(Grant("mercure:log", publish=True),))
    async with (
        following(hub, "*", bearer=service) as all_updates,
        following(hub, "*", bearer=reader) as public_updates,
    ):
        for bearer in (service, writer):
            assert (await publish(hub, "a", bearer=bearer, data="1", private="on")).status == 200
            assert (await publish(hub, "a", bearer=bearer, data="2")).status == 200
        assert await all_updates.data(4) == ["1", "2", "1", "2"]
        assert await public_updates.data(2) == ["2", "2"]
    for bearer in (reader, hub.token("eve")):
        assert (await publish(hub, "a", bearer=bearer)).status == 403
    answer = await ask(hub, f"GET {PATH}?topic=a", bearer=hub.token("eve"))
    assert (answer.status, answer.error) == (403, "not_permitted")


async def test_anonymous_subscribers_need_a_hub_and_rules_that_allow_them(
    start_hub: StartHub,
) -> None:
    hub = await mercure(
        start_hub,
        mercure_hub("closed", allow_anonymous=False),
        mercure_hub("ruled", rules=Rules(public=True)),
        mercure_hub("open"),
    )
    for name, status in (("closed", 401), ("ruled", 401), ("nowhere", 401), ("open", 200)):
        async with await RawConnection.open(hub.address) as connection:
            connection.request(f"GET /v1/hubs/{name}/mercure?topic=a")
            head = (await connection.until(b"\r\n\r\n")).decode()
            assert head.split()[1] == str(status), name


async def test_nothing_but_a_service_reads_or_writes_the_log_by_its_name(
    start_hub: StartHub,
) -> None:
    """Private updates would show in the history of the channel."""
    hub = await mercure(start_hub)
    bearer = token()
    await publish(hub, "a", data="secret", private="on")
    async with following(hub, "*", bearer=bearer):  # the registry has seen the identity
        for each in (None, hub.token("ann", grants=(Grant("*", True, True),))):
            answer = await ask(hub, "GET /v1/hubs/acme/channels/mercure:log/messages", bearer=each)
            assert answer.status == 403
            answer = await ask(
                hub, "POST /v1/hubs/acme/channels/mercure:log/messages", body=b"x", bearer=each
            )
            assert answer.status == 403
    # The hub's key for Mercure opens no other door.
    answer = await ask(hub, "GET /v1/hubs/acme/channels/a/messages", bearer=bearer)
    assert (answer.status, answer.error) == (401, "invalid_token")
    service = hub.token("shop", level=Level.SERVICE)
    answer = await ask(hub, "GET /v1/hubs/acme/channels/mercure:log/messages", bearer=service)
    assert b"secret" in answer.body


async def test_a_public_key_verifies_tokens_of_its_algorithm_alone(start_hub: StartHub) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    keys = {
        "own": MercureKey(key=pem.decode(), algorithm="ES256", subscribe=False),
        "readers": MercureKey(key=SECRET, publish=False),
    }
    hub = await mercure(start_hub, msgspec.structs.replace(mercure_hub(), mercure_keys=keys))
    made = jwt.encode({"mercure": ALL}, private, "ES256")
    assert (await publish(hub, "a", bearer=made)).status == 200
    assert (await publish(hub, "a", bearer=token())).status == 401
    assert (await ask(hub, f"GET {PATH}?topic=a", bearer=made)).status == 401
    async with following(hub, "a", bearer=token()):
        pass


# -- access that ends ------------------------------------------------------------------------------


async def test_a_stream_ends_with_its_token_and_by_revocation(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(mercure_hub(), clock=clock, mercure__enabled=True)
    admin = hub.token("root", level=Level.SERVICE)
    now = int(clock.now())
    async with (
        following(hub, "*", bearer=token(jti="one", exp=now + 10, iat=now)) as ending,
        following(hub, "*", bearer=token(jti="two", iat=now)) as revoked,
        following(hub, "a") as public,
    ):
        await publish(hub, "a", data="1")
        for stream in (ending, revoked, public):
            assert await stream.data(1) == ["1"]
        answer = await ask(
            hub, "POST /v1/admin/hubs/acme/revocations", "Content-Type: application/json",
            body=b'{"kind": "token", "subject": "two"}', bearer=admin,
        )  # fmt: skip
        assert answer.status == 201
        assert await revoked.rest() == b""
        clock.advance(12)
        hub.server.node.sweep()
        assert await ending.rest() == b""


async def test_removing_a_key_ends_the_streams_of_its_tokens(start_hub: StartHub) -> None:
    hub = await mercure(start_hub)
    service = hub.token("root", level=Level.SERVICE)
    json_type = "Content-Type: application/json"
    made = await ask(
        hub, "PUT /v1/admin/hubs/acme/mercure-keys/second", json_type,
        body=json.dumps({"key": SECRET * 2}).encode(), bearer=service,
    )  # fmt: skip
    assert (made.status, json.loads(made.body)["key"]) == (201, "(hidden)")
    kept = await ask(
        hub, "PUT /v1/admin/hubs/acme/mercure-keys/second", json_type,
        body=json.dumps({"key": "(hidden)", "publish": False}).encode(), bearer=service,
    )  # fmt: skip
    assert kept.status == 200
    async with (
        following(hub, "*", bearer=token(key=SECRET * 2)) as second,
        following(hub, "*", bearer=token()) as main,
    ):
        assert (await publish(hub, "a", bearer=token(key=SECRET * 2))).status == 401
        await ask(hub, "DELETE /v1/admin/hubs/acme/mercure-keys/second", bearer=service)
        assert await second.rest() == b":end\n\n"
        await publish(hub, "a", data="1")
        assert await main.data(1) == ["1"]
    assert (await ask(hub, f"GET {PATH}?topic=a", bearer=token(key=SECRET * 2))).status == 401


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({"key": "short"}, "fewer than 32 bytes"),
        ({"key": "-----BEGIN PUBLIC KEY-----" + "x" * 32}, "which is no secret"),
        ({"key": SECRET, "algorithm": "ES256"}, "is no public key"),
        ({"key": "(hidden)"}, "give it again"),
        ({"key": SECRET, "algorithm": "none"}, "algorithm"),
    ],
)
async def test_a_wrong_key_is_refused_and_not_shown(
    start_hub: StartHub, key: dict[str, str], words: str
) -> None:
    hub = await mercure(start_hub)
    answer = await ask(
        hub, "PUT /v1/admin/hubs/acme/mercure-keys/new", "Content-Type: application/json",
        body=json.dumps(key).encode(), bearer=hub.token("root", level=Level.SERVICE),
    )  # fmt: skip
    assert answer.status == 400
    assert words in answer.body.decode()
    assert SECRET not in answer.body.decode()


# -- browsers --------------------------------------------------------------------------------------

PAGE = "https://app.example"


@pytest.mark.spec("OPS-02")
async def test_a_form_of_a_page_publishes_nothing_with_a_token_in_its_address(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub)
    form = "Content-Type: application/x-www-form-urlencoded"
    line = f"POST {PATH}?authorization={token()}"
    for mark in ("Origin: null", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"):
        refused = await ask(hub, line, form, mark, body=b"topic=a", bearer=None)
        assert (refused.status, b"origin_refused" in refused.body) == (403, True), mark
    assert (await ask(hub, line, form, body=b"topic=a", bearer=None)).status == 200


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", [f"Origin: {PAGE}"], 200),
        ("GET", [f"Referer: {PAGE}/page?x=1"], 200),
        ("GET", ["Referer: http://test/page"], 200),
        ("GET", ["Sec-Fetch-Site: same-origin"], 200),
        ("GET", ["Sec-Fetch-Site: cross-site"], 403),
        ("GET", ["Origin: https://evil.example"], 403),
        ("GET", ["Referer: https://evil.example/"], 403),
        ("POST", [f"Origin: {PAGE}"], 200),
        ("POST", ["Origin: http://test"], 200),
        ("POST", [f"Referer: {PAGE}/"], 200),
        ("POST", [], 403),
        ("POST", ["Origin: https://evil.example"], 403),
        ("POST", ["Origin: null"], 403),
    ],
)
@pytest.mark.parametrize("anyone", [False, True], ids=["listed", "any-origin"])
async def test_the_cookie_counts_only_for_pages_that_the_hub_names(
    start_hub: StartHub, method: str, headers: list[str], status: int, anyone: bool
) -> None:
    """`*` lets every page in, but lends nobody the cookie of another page's user."""
    origins = (PAGE, *(("*",) if anyone else ()))
    hub = await mercure(start_hub, mercure_hub(allowed_origins=origins))
    cookie = f"Cookie: other=1; mercureAuthorization={token()}"
    async with await RawConnection.open(hub.address) as connection:
        if method == "GET":
            connection.request(f"GET {PATH}?topic=a", cookie, *headers)
        else:
            form = "Content-Type: application/x-www-form-urlencoded"
            connection.request(f"POST {PATH}", cookie, form, *headers, body=b"topic=a")
        head = (await connection.until(b"\r\n\r\n")).decode()
    assert head.split()[1] == str(status)
    credentials = "Access-Control-Allow-Credentials: true" in head
    assert credentials == (status == 200 and any(each.startswith("Origin") for each in headers))


# -- active subscriptions --------------------------------------------------------------------------


async def test_streams_are_listed_and_told_to_those_whose_tokens_allow_it(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub, mercure_hub(mercure_subscriptions=True))
    base = "/.well-known/mercure/subscriptions"
    watch = token({"subscribe": [f"{base}{{/topic}}{{/subscriber}}", base]})
    published = (await publish(hub, "a")).body.decode()
    async with following(hub, f"{base}/{{topic}}/{{subscriber}}", bearer=watch) as watcher:
        own = json.loads((await watcher.next()).data)
        assert own["active"] is True
        async with following(
            hub, "a", "https://x/{id}", bearer=token({"subscribe": ["a"], "payload": {"u": 1}})
        ):
            told = [json.loads((await watcher.next()).data) for _ in range(2)]
            assert [each["topic"] for each in told] == ["a", "https://x/{id}"]
            assert all(each["payload"] == {"u": 1} and each["active"] for each in told)
            answer = await ask(hub, f"GET {PATH}/subscriptions", bearer=watch)
            assert answer.headers["content-type"] == "application/ld+json"
            listed = json.loads(answer.body)
            assert listed["lastEventID"] == published
            assert listed["subscriptions"] == [own, *told]
            of_topic = await ask(hub, f"GET {PATH}/subscriptions/a", bearer=watch)
            assert json.loads(of_topic.body)["subscriptions"] == told[:1]
            place = f"{quote('https://x/{id}', safe='')}/{quote(told[1]['subscriber'], safe='')}"
            one = await ask(hub, f"GET {PATH}/subscriptions/{place}", bearer=watch)
            assert json.loads(one.body)["id"] == f"{base}/{place}" == told[1]["id"]
            for bearer, status in ((None, 401), (token({"subscribe": ["a"]}), 403)):
                answer = await ask(hub, f"GET {PATH}/subscriptions", bearer=bearer)
                assert answer.status == status
        ended = [json.loads((await watcher.next()).data) for _ in range(2)]
        assert ended == [{**each, "active": False} for each in told]
    answer = await ask(hub, f"GET {PATH}/subscriptions/{place}", bearer=watch)
    assert (answer.status, answer.error) == (404, "not_found")


async def test_a_hub_that_does_not_list_subscriptions_says_so(start_hub: StartHub) -> None:
    hub = await mercure(start_hub)
    answer = await ask(hub, f"GET {PATH}/subscriptions", bearer=token())
    assert (answer.status, answer.error) == (404, "not_found")


# -- addresses, bounds and bad input ---------------------------------------------------------------


async def test_the_well_known_path_finds_the_hub_by_host(start_server: StartHub) -> None:
    hub = await start_server(
        mercure_hub(), mercure_hub("news"), mercure__enabled=True,
        mercure__hosts={"test": "news"}, mercure__defaultHub="acme",
    )  # fmt: skip
    path = "/.well-known/mercure"
    async with following(hub, "a", path="/v1/hubs/news/mercure") as stream:
        assert (await publish(hub, "a", path=path, data="1")).status == 200
        assert await stream.data(1) == ["1"]
    async with following(hub, "a") as stream, await RawConnection.open(hub.address) as client:
        body = b"topic=a&data=2"
        client.send(
            b"POST %b HTTP/1.1\r\nHost: other\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%b"
            % (path.encode(), token().encode(), len(body), body)
        )
        assert (await client.response()).status == 200
        assert await stream.data(1) == ["2"]


async def test_without_the_setting_there_is_no_such_door(start_hub: StartHub) -> None:
    hub = await start_hub(mercure_hub())
    for path in (PATH, "/.well-known/mercure"):
        answer = await ask(hub, f"GET {path}?topic=a", bearer=token())
        assert (answer.status, answer.error) == (404, "not_found")


async def test_bad_input_is_named(start_hub: StartHub) -> None:
    hub = await mercure(start_hub)
    bearer, form = token(), "Content-Type: application/x-www-form-urlencoded"
    wrong_type = "unsupported_media_type"
    cases = {
        (f"GET {PATH}", (), b""): (400, "bad_request"),
        (f"GET {PATH}?topic=", (), b""): (400, "bad_request"),
        (f"GET {PATH}?" + "topic=a&" * 101, (), b""): (400, "bad_request"),
        (f"GET {PATH}?topic={'a' * 2049}", (), b""): (400, "bad_request"),
        (f"GET {PATH}?topic={'a' * 17_000}", (), b""): (431, "head_too_large"),
        (f"POST {PATH}", ("Content-Type: application/json",), b"{}"): (
            415,
            "unsupported_media_type",
        ),
        (f"POST {PATH}", (), b"topic=a"): (415, wrong_type),
        (f"POST {PATH}", (form,), b"data=a"): (400, "bad_request"),
        (f"POST {PATH}", (form,), b"topic=%FF"): (400, "malformed"),
        (f"POST {PATH}", (form,), b"topic=a&retry=x"): (400, "bad_request"),
        (f"PUT {PATH}", (form,), b"topic=a"): (405, "method_not_allowed"),
    }
    for (line, headers, body), expected in cases.items():
        answer = await ask(hub, line, *headers, body=body, bearer=bearer)
        assert (answer.status, answer.error) == expected, line[:60]


async def test_selector_sets_are_bounded_for_the_hub_and_for_each_user(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub, mercure__maxSelectorSets=8)
    ann, bob = token(sub="ann"), token(sub="bob")
    async with following(hub, "a", bearer=ann), following(hub, "b", bearer=ann) as second:
        answer = await ask(hub, f"GET {PATH}?topic=c", bearer=ann)
        assert (answer.status, answer.error) == (429, "quota_exceeded")
        async with following(hub, "c", bearer=bob):
            await publish(hub, "b", data="1")
            assert await second.data(1) == ["1"]
    async with following(hub, "c", bearer=ann):
        pass


async def test_an_update_also_reaches_the_channel_of_its_first_topic_where_the_hub_says_so(
    start_hub: StartHub,
) -> None:
    hub = await mercure(start_hub, mercure_hub(mercure_bridge=True))
    socket = await hub.socket()
    await socket.subscribe("room:tea")
    assert (await publish(hub, "room:tea", data='{"a":1}', type="t")).status == 200
    assert (await publish(hub, "room:tea", data="private", private="on")).status == 200
    assert (await publish(hub, "https://x/*", data="no name of a channel")).status == 200
    assert (await publish(hub, "room:tea", data="text")).status == 200
    first, second = await socket.expect("Publish"), await socket.expect("Publish")
    assert (first["event"], first["payload"]) == ("t", {"json": {"a": 1}})
    assert second["payload"] == {"text": "text"}


async def test_many_streams_of_one_selector_share_their_bytes(start_hub: StartHub) -> None:
    hub = await mercure(start_hub)
    async with contexts([following(hub, "a", "b") for _ in range(20)]) as streams:
        feed = hub.server.node.hubs["acme"].feeds["mercure:log"]
        assert len(feed.filtered) == 1
        await publish(hub, "a", data="1")
        for data in await asyncio.gather(*(stream.data(1) for stream in streams)):
            assert data == ["1"]


# -- several nodes ---------------------------------------------------------------------------------


async def test_streams_resume_on_another_node_and_are_listed_from_all(
    on: Ground, tmp_path: Path
) -> None:
    hubs = [mercure_hub(mercure_subscriptions=True)]
    east = await start_node(tmp_path, on, "east", hubs, mercure__enabled=True)
    west = await start_node(tmp_path, on, "west", hubs, mercure__enabled=True)
    watch = token({"subscribe": ["*"], "payload": "far"})
    try:
        async with (
            following(east, "a") as near,
            following(west, "a", bearer=watch) as far,
        ):
            ids = []
            for number in range(10):
                node = (east, west)[number % 2]
                ids.append((await publish(node, "a", data=str(number))).body.decode())
            for stream in (near, far):
                assert await stream.data(10) == [str(number) for number in range(10)]
            for node in (east, west):
                answer = await ask(node, f"GET {PATH}/subscriptions", bearer=watch)
                told = json.loads(answer.body)["subscriptions"]
                assert {each.get("payload") for each in told} == {None, "far"}
        async with following(west, "a", lastEventID=ids[3]) as resumed:
            await publish(east, "a", data="10")
            assert await resumed.data(7) == [str(number) for number in range(4, 11)]
    finally:
        await west.close()
        await east.close()
