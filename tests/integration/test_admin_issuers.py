"""Tokens of foreign issuers, with real keys from a real server."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from harness.admin import HUB, Caller, admin_of, service_of
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.domain.rules import Rules, TrustedIssuer

HISTORY = "/v1/hubs/acme/channels/news/messages"


class Key:
    """A private key of an issuer, and its public half as a JWK."""

    def __init__(self, algorithm: str, kid: str) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.private: Any
        if algorithm == "RS256":
            self.private = rsa.generate_private_key(65537, 2048)
            public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        elif algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()
            public = OKPAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        self.jwk: dict[str, Any] = {**public, "kid": kid}

    def sign(self, **changed: Any) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": "https://id.example",
            "aud": "hubbub",
            "sub": "ann",
            "iat": now,
            "exp": now + 300,
            "jti": "token-1",
            "channels": [{"channel": "news", "subscribe": True}],
        }
        claims |= changed
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.kid})


ED = Key("EdDSA", "ed")
KEYS = {"RS256": Key("RS256", "rs"), "ES256": Key("ES256", "es"), "EdDSA": ED}


class Issuer:
    """Publishes keys, or whatever the test wants it to."""

    def __init__(self) -> None:
        self.document: bytes = b""
        self.status = 200
        self.fetches = 0
        self.hold: asyncio.Event | None = None
        self.url = ""
        self.publish(*KEYS.values())

    def publish(self, *keys: Key) -> None:
        self.document = json.dumps({"keys": [key.jwk for key in keys]}).encode()

    async def handle(self, request: web.Request) -> web.Response:
        self.fetches += 1
        if self.hold is not None:
            await self.hold.wait()
        return web.Response(status=self.status, body=self.document)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    app = web.Application()
    app.router.add_get("/keys", issuer.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
    yield issuer
    if issuer.hold is not None:
        issuer.hold.set()
    await runner.cleanup()


async def closed_hub(start_hub: StartHub, issuer: Issuer, **more: Any) -> RunningHub:
    trusted = TrustedIssuer("https://id.example", "hubbub", jwks_url=issuer.url, **more)
    settings: dict[str, Any] = {"allow_anonymous": False, "trusted_issuers": (trusted,)}
    rules = Rules(live_history=True, presence=True)
    return await start_hub(open_hub(rules=rules, **settings), open_hub("other"))


async def status_of(hub: RunningHub, token: str, path: str = HISTORY) -> tuple[int, str | None]:
    reply = await Caller(hub, token)("GET", path)
    return reply.status, reply.code


@pytest.mark.spec("ADMIN-03")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_foreign_token_opens_every_door_it_names(
    start_hub: StartHub, issuer: Issuer, algorithm: str
) -> None:
    hub = await closed_hub(start_hub, issuer)
    token = KEYS[algorithm].sign()
    socket = await hub.socket(token=token)
    done = await socket.subscribe("news", "other")
    assert done["subscribedChannels"] == ["news"]
    assert await status_of(hub, token) == (200, None)
    late = await hub.socket()
    await late.send("Auth", reqID=1, token=token)
    assert (await late.find("Auth"))["userID"] == "ann"
    url = "/v1/hubs/acme/events?channel=news"
    async with hub.http.get(url, headers={"Authorization": f"Bearer {token}"}) as stream:
        assert stream.status == 200
    assert issuer.fetches == 1


@pytest.mark.spec("ADMIN-03")
async def test_the_first_of_many_at_once_fetches_for_all(
    start_hub: StartHub, issuer: Issuer
) -> None:
    hub = await closed_hub(start_hub, issuer)
    issuer.hold = asyncio.Event()
    tokens = [ED.sign(jti=f"t{number}") for number in range(20)]
    waiting = asyncio.gather(*[status_of(hub, token) for token in tokens])
    sockets = asyncio.gather(*[hub.socket(token=token) for token in tokens[:5]])
    while not issuer.fetches:
        await asyncio.sleep(0)
    issuer.hold.set()
    assert set(await waiting) == {(200, None)}
    assert len(await sockets) == 5
    assert issuer.fetches == 1


@pytest.mark.spec("ADMIN-03", "OPS-02")
@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": int(time.time()) - 60},
        {"exp": None},
        {"exp": int(time.time()) + 400 * 24 * 3600},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 3600},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": "ann\r\nadmin"},
        {"sub": "a" * 10_000},
        {"jti": "t" * 300},
        {"channels": [{"channel": "*" * 300, "subscribe": True}]},
        {"channels": [{"channel": "news", "subscribe": True}] * 101},
        {"channels": "all"},
        {"channels": [{"channel": "news", "subscribe": "yes"}]},
        {"rpcs": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_foreign_tokens_that_are_not_right_in_all_are_refused(
    start_hub: StartHub, issuer: Issuer, changed: dict[str, Any]
) -> None:
    hub = await closed_hub(start_hub, issuer)
    assert await status_of(hub, ED.sign(**changed)) == (401, "invalid_token")


@pytest.mark.spec("ADMIN-03", "OPS-02")
async def test_forgeries_are_refused(start_hub: StartHub, issuer: Issuer) -> None:
    hub = await closed_hub(start_hub, issuer)
    impostor = Key("EdDSA", "ed")
    head, claims, signature = ED.sign().split(".")
    confused = _signed_with_public_key(KEYS["RS256"])
    unsigned = jwt.encode({"iss": "https://id.example", "sub": "ann"}, "", "none")
    for token in (
        impostor.sign(),
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[::-1]}",
        f"{head}.{ED.sign(sub='root').split('.')[1]}.{signature}",
        confused,
        unsigned,
    ):
        assert await status_of(hub, token) == (401, "invalid_token")
    # The right token, in a hub that does not trust this issuer.
    path = HISTORY.replace("acme", "other")
    assert await status_of(hub, ED.sign(), path) == (401, "invalid_token")


def _signed_with_public_key(key: Key) -> str:
    """What passes where a verifier lets the token choose between signature and shared secret."""
    claims = {"iss": "https://id.example", "aud": "hubbub", "sub": "ann", "exp": 2**32}
    parts = [{"alg": "HS256", "typ": "JWT", "kid": key.kid}, claims]
    text = b".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in parts)
    public = key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signature = hmac.digest(public, text, "sha256")
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


@pytest.mark.spec("ADMIN-03")
async def test_no_foreign_token_is_an_administrator(start_hub: StartHub, issuer: Issuer) -> None:
    hub = await closed_hub(start_hub, issuer, level="service")
    token = ED.sign(level="admin", hub="*")
    assert (await status_of(hub, token, f"{HUB}/settings"))[0] == 200
    assert (await status_of(hub, token, "/v1/admin/hubs"))[0] == 401
    refresh = await Caller(hub, token)("POST", "/v1/hubs/acme/token/refresh")
    assert refresh.code == "invalid_token"


@pytest.mark.spec("ADMIN-03", "SEC-02")
async def test_a_service_makes_no_services_of_those_whom_an_issuer_vouches_for(
    start_hub: StartHub, issuer: Issuer
) -> None:
    hub = await closed_hub(start_hub, issuer, level="service")
    service = Caller(hub, hub.token(None, level=Level.SERVICE))
    administrator = Caller(hub, hub.token(None, level=Level.ADMIN))
    settings = (await service("GET", f"{HUB}/settings")).json
    (trusted,) = settings["trustedIssuers"]
    own = {"issuer": "https://own.example", "audience": "hubbub", "keys": [ED.jwk]}

    async def put(caller: Caller, *issuers: dict[str, Any]) -> tuple[int, str | None]:
        changed = {**settings, "trustedIssuers": list(issuers)}
        reply = await caller("PUT", f"{HUB}/settings", changed)
        return reply.status, reply.code

    for raised in (
        {**own, "level": "service"},
        {**trusted, "audience": "another"},
        {**trusted, "keys": [ED.jwk], "jwksUrl": None},
        {**trusted, "userClaim": "email"},
    ):
        assert await put(service, trusted, raised) == (403, "not_permitted"), raised
    assert await put(service, trusted, own) == (200, None)
    assert await put(service, trusted, {**own, "level": "service"}) == (403, "not_permitted")
    assert await put(service, own) == (200, None)
    assert await put(service, trusted, own) == (403, "not_permitted")
    assert await put(administrator, {**own, "level": "service"}) == (200, None)


@pytest.mark.spec("ADMIN-03")
async def test_claims_are_found_where_the_settings_say(start_hub: StartHub, issuer: Issuer) -> None:
    names = {"user_claim": "email", "channels_claim": "https://a.example/channels"}
    hub = await closed_hub(start_hub, issuer, extra_claim="profile", **names)
    token = ED.sign(
        sub="ignored",
        email="ann@example.org",
        profile={"name": "Ann"},
        **{"https://a.example/channels": [{"channel": "news", "subscribe": True}]},
    )
    socket = await hub.socket(token=token)
    await socket.subscribe("news")
    presence = await socket.find("Presence")
    assert presence["presence"][0]["userID"] == "ann@example.org"
    assert presence["presence"][0]["extra"] == {"name": "Ann"}


@pytest.mark.spec("ADMIN-03")
async def test_keys_in_the_settings_need_no_server(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False))
    settings = {
        "defaultRules": "default",
        "trustedIssuers": [
            {"issuer": "https://id.example", "audience": "hubbub", "keys": [ED.jwk]}
        ],
    }
    token = ED.sign()
    assert await status_of(hub, token) == (401, "invalid_token")
    assert (await service_of(hub)("PUT", f"{HUB}/settings", settings)).status == 200
    for _ in range(2):
        assert await status_of(hub, token) == (200, None)
    # Trust that is withdrawn ends at once, also for what was verified before.
    publish = ED.sign(channels=[{"channel": "news", "publish": True}])
    caller = Caller(hub, publish)
    for _ in range(3):
        assert (await caller("POST", HISTORY, {"n": 1})).status == 200
    assert (await service_of(hub)("PUT", f"{HUB}/settings", {})).status == 200
    assert await status_of(hub, token) == (401, "invalid_token")
    assert (await caller("POST", HISTORY, {"n": 1})).status == 401


@pytest.mark.spec("ADMIN-03", "OPS-03")
@pytest.mark.parametrize(
    ("status", "document"),
    [
        (500, b""),
        (302, b""),
        (200, b"garbage"),
        (200, b"[]"),
        (200, b'{"keys": 7}'),
        (200, b'{"keys": []}'),
        (200, b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "ed"}]}'),
        (200, b'{"keys": [{"kty": ["RSA"], "crv": {}}, 7, null]}'),
        (200, b"[" * 100_000),
        (200, b'{"keys": "' + b"x" * 300_000 + b'"}'),
    ],
    ids=["error", "redirect", "garbage", "list", "number", "none", "secret", "odd", "deep", "huge"],
)
async def test_an_issuer_that_fails_gives_a_clear_failure_and_no_access(
    start_hub: StartHub, issuer: Issuer, status: int, document: bytes
) -> None:
    issuer.status, issuer.document = status, document
    hub = await closed_hub(start_hub, issuer)
    assert await status_of(hub, ED.sign()) == (502, "auth_provider_failed")
    socket = await hub.raw_socket(additional_headers={"Authorization": f"Bearer {ED.sign()}"})
    assert (await socket.closed())[0] == 4502
    assert issuer.fetches == 1  # it is not asked again at once
    assert (await admin_of(hub)("GET", f"{HUB}/sessions")).json["items"] == []


@pytest.mark.spec("ADMIN-03", "OPS-03")
async def test_an_issuer_that_never_answers_keeps_nobody_else_waiting(
    start_hub: StartHub, issuer: Issuer
) -> None:
    issuer.hold = asyncio.Event()
    hub = await closed_hub(start_hub, issuer)
    hub.server.key_source.timeout_seconds = 0.2
    slow = asyncio.ensure_future(status_of(hub, ED.sign()))
    while not issuer.fetches:
        await asyncio.sleep(0)
    assert await status_of(hub, hub.token("ann"), HISTORY) == (403, "not_permitted")
    assert await slow == (502, "auth_provider_failed")


@pytest.mark.spec("ADMIN-03")
async def test_a_new_key_is_fetched_when_it_is_first_seen_but_not_all_the_time(
    start_server: StartHub, issuer: Issuer
) -> None:
    hub = await closed_hub(start_server, issuer)
    issuers = hub.server.tokens._issuers
    assert issuers is not None
    clock = Skipping(issuers._clock)
    issuers._clock = clock
    assert await status_of(hub, ED.sign()) == (200, None)
    new = Key("ES256", "new")
    assert await status_of(hub, new.sign()) == (401, "invalid_token")
    for number in range(5):
        stranger = Key("EdDSA", f"unknown-{number}")
        assert await status_of(hub, stranger.sign()) == (401, "invalid_token")
    assert issuer.fetches == 1
    issuer.publish(new)
    clock.skip(11)
    assert await status_of(hub, new.sign(jti="other")) == (200, None)
    assert issuer.fetches == 2
    # The key that was withdrawn no longer counts, though its token was verified before.
    assert await status_of(hub, ED.sign()) == (401, "invalid_token")


@pytest.mark.spec("ADMIN-03")
async def test_known_keys_outlive_a_short_absence_of_their_issuer(
    start_server: StartHub, issuer: Issuer
) -> None:
    hub = await closed_hub(start_server, issuer)
    issuers = hub.server.tokens._issuers
    assert issuers is not None
    clock = Skipping(issuers._clock)
    issuers._clock = clock
    token = ED.sign()
    assert await status_of(hub, token) == (200, None)
    issuer.status = 500
    clock.skip(1000)
    assert await status_of(hub, token) == (200, None)
    assert issuer.fetches == 2
    clock.skip(4000)
    assert await status_of(hub, token) == (502, "auth_provider_failed")


@pytest.mark.spec("ADMIN-03")
async def test_foreign_tokens_can_be_revoked(start_hub: StartHub, issuer: Issuer) -> None:
    hub = await closed_hub(start_hub, issuer)
    socket = await hub.socket(token=ED.sign())
    body = {"kind": "token", "subject": "token-1"}
    await admin_of(hub)("POST", f"{HUB}/revocations", body)
    assert (await socket.closed())[0] == 4411
    assert await status_of(hub, ED.sign()) == (401, "invalid_token")
    assert await status_of(hub, ED.sign(jti="token-2")) == (200, None)


class Skipping:
    """A clock that can be put forward, for intervals only."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._skipped = 0.0

    def skip(self, seconds: float) -> None:
        self._skipped += seconds

    def now(self) -> float:
        return float(self._clock.now())

    def monotonic(self) -> float:
        return float(self._clock.monotonic()) + self._skipped
