"""Routes of push: devices, followings, keys and accounts, pushes by services."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.errors import (
    BadRequest,
    InvalidAttribute,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    Unavailable,
    WrongChannelKind,
)
from hubbub.domain.fields import UserId
from hubbub.domain.push.options import MAX_TTL_SECONDS, Urgency, read_options
from hubbub.domain.push.requests import VapidKey
from hubbub.domain.push.tokens import Environment, PushSubscription, b64url, shown
from hubbub.engine.administration import Administration
from hubbub.engine.administration.push import GivenToken
from hubbub.engine.push.credentials import APNS, FCM, VAPID, ApnsKey, read_service_account
from hubbub.gateways.admin.shapes import Shape
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.ports.storage.push import PushCredential, PushFollowing

OWN_PUSH_ROUTES = Routes("/v1/hubs/{hub}", "Push", Access.CLIENT, (NotFound,))
USERS_PUSH_ROUTES = Routes("/v1/admin/hubs/{hub}/users/{user}", "Push", Access.SERVICE, (NotFound,))
PUSH_ROUTES = Routes("/v1/admin/hubs/{hub}/push", "Push", Access.SERVICE, (NotFound,))

Time = Annotated[int, Meta(description="In ms since 1970.")]
KeyId = Annotated[str, Meta(min_length=1, max_length=64)]


# -- devices --------------------------------------------------------------------------------------


class NewPushToken(Shape, frozen=True):
    """For the platform webpush, `token` is a PushSubscription, as an object or as its JSON text;
    `topic` and `environment` are for apns; `vapidKey` is the id of the key with which the browser
    subscribed; default: that of the previous registration, or the newest."""

    platform: Annotated[
        str,
        Meta(max_length=32, extra_json_schema={"enum": ["webpush", "fcm", "apns"]}),
    ]
    token: Annotated[str, Meta(min_length=1, max_length=4096)] | PushSubscription
    topic: Annotated[str, Meta(max_length=255)] | None = None
    environment: Environment | None = None
    vapid_key: KeyId | None = None


class PushToken(Shape, frozen=True):
    """For the platform webpush, `token` is the endpoint; `id` names the token in the journal and in
    logs, which never contain the token."""

    platform: Literal["webpush", "fcm", "apns"]
    token: str
    id: str
    registered_at: Time
    failures: int
    topic: str | None = None
    environment: Environment | None = None
    vapid_key: str | None = None
    expires_at: Time | None = None
    last_success_at: Time | None = None


class PushTokens(Shape, frozen=True):
    """The devices of a user."""

    items: list[PushToken]


def _user(request: AdminRequest[Any, Any]) -> str:
    """The user in the path, or else the caller."""
    user = request.path.get("user") or request.actor.identity.user_id
    if user is None:
        raise BadRequest("the token names no user, who could have devices")
    return user


async def list_push_tokens(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> PushTokens:
    found = await admin.push.tokens(request.hub, _user(request))
    return PushTokens(items=[PushToken(**shown(each)) for each in found])


async def put_push_token(
    admin: Administration, request: AdminRequest[NoQuery, NewPushToken]
) -> PushToken:
    given = GivenToken(**{name: getattr(request.body, name) for name in _GIVEN})
    token = await admin.push.register(request.actor, request.hub, _user(request), given)
    return PushToken(**shown(token))


_GIVEN = GivenToken.__struct_fields__


async def delete_push_token(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    platform, token = request.path["platform"], request.path["token"]
    await admin.push.unregister(request.actor, request.hub, _user(request), platform, token)


# -- followings -----------------------------------------------------------------------------------


class Following(Shape, frozen=True):
    """A channel whose pushes reach the user, subscribed or not, while the user may read it."""

    channel: str
    created_at: Time


class Followings(Shape, frozen=True):
    """The channels whose pushes reach a user without a subscription."""

    items: list[Following]


def _following(found: PushFollowing) -> Following:
    return Following(channel=found.channel, created_at=found.created_at)


async def list_push_subscriptions(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Followings:
    found = await admin.push.followings(request.hub, _user(request))
    return Followings(items=[_following(each) for each in found])


async def put_push_subscription(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Following:
    channel = request.path["channel"]
    return _following(await admin.push.follow(request.actor, request.hub, _user(request), channel))


async def delete_push_subscription(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> None:
    await admin.push.unfollow(request.actor, request.hub, _user(request), request.path["channel"])


_FOLLOWING = (NotFound, NotPermitted, QuotaExceeded, WrongChannelKind)


def _add_routes(routes: Routes, suffix: str, whose: str, who: str) -> None:
    routes.serve(
        "GET", "/push-tokens", name=f"listPushTokens{suffix}", payloads=True,
        summary=f"List {whose} push tokens",
    )(list_push_tokens)  # fmt: skip
    routes.serve(
        "PUT", "/push-tokens", name=f"putPushToken{suffix}", errors=(NotFound, QuotaExceeded),
        summary=f"Register one of {whose} push tokens, or refresh it",
    )(put_push_token)  # fmt: skip
    routes.serve(
        "DELETE", "/push-tokens/{platform}/{token}", name=f"deletePushToken{suffix}",
        summary=f"Delete one of {whose} push tokens, by the token, the endpoint or the id",
    )(delete_push_token)  # fmt: skip
    routes.serve(
        "GET", "/push-subscriptions", name=f"listPushSubscriptions{suffix}",
        summary=f"List the channels whose pushes reach {who}",
    )(list_push_subscriptions)  # fmt: skip
    routes.serve(
        "PUT", "/push-subscriptions/{channel}", name=f"putPushSubscription{suffix}",
        summary=f"Have the pushes of a channel reach {who}, subscribed or not", errors=_FOLLOWING,
    )(put_push_subscription)  # fmt: skip
    routes.serve(
        "DELETE", "/push-subscriptions/{channel}", name=f"deletePushSubscription{suffix}",
        summary=f"Have the pushes of a channel no longer reach {who} without a subscription",
    )(delete_push_subscription)  # fmt: skip


_add_routes(OWN_PUSH_ROUTES, "", "one's own", "oneself")
_add_routes(USERS_PUSH_ROUTES, "OfUser", "a user's", "a user")


# -- keys and accounts ----------------------------------------------------------------------------


class PushKey(Shape, frozen=True):
    """`key` is what `pushManager.subscribe` takes as `applicationServerKey`."""

    id: str
    key: Annotated[str, Meta(description="The public key in base64url.")]


class ServiceAccountFile(msgspec.Struct, frozen=True):
    """Google's JSON file of a service account; fields besides these are ignored."""

    project_id: str
    client_email: str
    private_key: str


class Credential(Shape, frozen=True):
    """The public properties of an account or key, without the secret."""

    name: Annotated[str, Meta(description="fcm, apns, or the id of a VAPID key.")]
    platform: Literal["webpush", "fcm", "apns"]
    created_at: Time
    project_id: str | None = None
    client_email: str | None = None
    key_id: str | None = None
    team_id: str | None = None
    topic: str | None = None
    environment: str | None = None
    fingerprint: str | None = None
    key: Annotated[str, Meta(description="The public key of a VAPID key.")] | None = None


class Credentials(Shape, frozen=True):
    """A hub's keys and accounts for push services, without secrets."""

    items: list[Credential]


def _key(found: VapidKey) -> PushKey:
    return PushKey(id=found.id, key=b64url(found.public))


def _credential(found: PushCredential) -> Credential:
    about = {
        "name": found.name.removeprefix(VAPID),
        "platform": "webpush" if found.name.startswith(VAPID) else found.name,
        "createdAt": found.created_at,
        **msgspec.json.decode(found.about),
    }
    return msgspec.convert(about, Credential)


@OWN_PUSH_ROUTES.serve("GET", "/push/key", errors=(NotFound, Unavailable))
async def get_push_key(admin: Administration, request: AdminRequest[NoQuery, None]) -> PushKey:
    """Read the public key that browsers subscribe with."""
    return _key(await admin.push.public_key(request.hub))


@PUSH_ROUTES.serve("POST", "/keys")
async def rotate_push_key(admin: Administration, request: AdminRequest[NoQuery, None]) -> PushKey:
    """Create a new key for browsers; existing subscriptions keep their older keys."""
    return _key(await admin.push.rotate(request.actor, request.hub))


@PUSH_ROUTES.serve("GET", "/credentials")
async def list_push_credentials(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> Credentials:
    """List keys and accounts for push services, without their secrets."""
    found = await admin.push.credentials(request.hub)
    return Credentials(items=[_credential(each) for each in found])


@PUSH_ROUTES.serve("PUT", "/credentials/fcm", body=ServiceAccountFile, reads_itself=True)
async def put_fcm_account(
    admin: Administration, request: AdminRequest[NoQuery, bytes]
) -> Credential:
    """Set the service account for FCM: the JSON file as Google gives it."""
    try:
        given = msgspec.json.decode(request.raw, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise BadRequest("the body is not the JSON file of a service account") from None
    account = read_service_account(given)
    return _credential(await admin.push.put_account(request.actor, request.hub, account))


@PUSH_ROUTES.serve("PUT", "/credentials/apns")
async def put_apns_key(
    admin: Administration, request: AdminRequest[NoQuery, ApnsKey]
) -> Credential:
    """Set the key for APNs."""
    return _credential(await admin.push.put_account(request.actor, request.hub, request.body))


@PUSH_ROUTES.serve("DELETE", "/credentials/fcm")
async def delete_fcm_account(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete the service account for FCM."""
    await admin.push.delete_credentials(request.actor, request.hub, FCM)


@PUSH_ROUTES.serve("DELETE", "/credentials/apns")
async def delete_apns_key(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete the key for APNs."""
    await admin.push.delete_credentials(request.actor, request.hub, APNS)


@PUSH_ROUTES.serve("DELETE", "/keys/{keyID}")
async def delete_push_key(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Delete a key for browsers; subscriptions made with it no longer work."""
    await admin.push.delete_credentials(request.actor, request.hub, VAPID + request.path["keyID"])


# -- pushing --------------------------------------------------------------------------------------


class PushContent(Shape, frozen=True, kw_only=True):
    """Like `extra.pushOptions` of a message."""

    title: str | None = None
    body: str | None = None
    icon: str | None = None
    url: str | None = None
    data: dict[str, Any] | None = None
    collapse_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    ttl: Annotated[int, Meta(ge=0, le=MAX_TTL_SECONDS)] | None = None
    urgency: Urgency | None = None


class PushOrder(PushContent, frozen=True, kw_only=True):
    """A push to all devices of some users."""

    users: Annotated[list[UserId], Meta(min_length=1, max_length=10_000)]


class PushTest(PushContent, frozen=True, kw_only=True):
    """A push to each device of one user."""

    user: UserId


class PushAccepted(Shape, frozen=True):
    """`pushID` is `message_id` of the attempts in the journal."""

    push_id: str


class TestResult(Shape, frozen=True):
    """The response of a device's push service."""

    platform: Literal["webpush", "fcm", "apns"]
    id: str
    outcome: str
    reason: str
    status: int | None = None
    seconds: float | None = None


class TestResults(Shape, frozen=True):
    """A result for each device."""

    items: list[TestResult]


class LastError(Shape, frozen=True):
    """The last attempt that a push service refused. `at` is in ms since 1970."""

    at: Time
    peer: str
    reason: str
    status: int | None = None


class PlatformStatus(Shape, frozen=True):
    """Attempts by outcome; `meanSeconds` is the mean duration of accepted ones."""

    outcomes: dict[str, int]
    mean_seconds: float | None = None
    last_success_at: Time | None = None
    last_error: LastError | None = None


class PushStatus(Shape, frozen=True):
    """The counters of the responding node, since its start."""

    waiting: int
    overflowed: int
    platforms: dict[str, PlatformStatus]


def _options(content: PushContent) -> Any:
    names = PushContent.__struct_encode_fields__
    values = (getattr(content, name) for name in PushContent.__struct_fields__)
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    return read_options(given)


@PUSH_ROUTES.serve("POST", "", errors=(NotFound, InvalidAttribute))
async def push_to_users(
    admin: Administration, request: AdminRequest[NoQuery, PushOrder]
) -> PushAccepted:
    """Push to all devices of some users."""
    body = request.body
    return PushAccepted(push_id=await admin.push.push(request.hub, body.users, _options(body)))


@PUSH_ROUTES.serve("POST", "/test", errors=(NotFound, InvalidAttribute, Unavailable))
async def test_push(admin: Administration, request: AdminRequest[NoQuery, PushTest]) -> TestResults:
    """Push to each device of a user once, immediately, and return the services' responses."""
    body = request.body
    results = await admin.push.test(request.hub, body.user, _options(body))
    return TestResults(
        items=[
            TestResult(
                platform=token.platform,
                id=token.id,
                outcome=attempt.outcome,
                reason=attempt.reason,
                status=attempt.status,
                seconds=attempt.seconds,
            )
            for token, attempt in results
        ]
    )


@PUSH_ROUTES.serve("GET", "")
async def get_push_status(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> PushStatus:
    """Read the state of push: outcomes, latency and the last error of each service."""
    counters, waiting = admin.push.status(request.hub)
    platforms: dict[str, PlatformStatus] = {}
    for name in sorted({platform for platform, _ in counters.outcomes}):
        answered, error = counters.answered.get(name), counters.errors.get(name)
        platforms[name] = PlatformStatus(
            outcomes={word: n for (of, word), n in counters.outcomes.items() if of == name},
            mean_seconds=answered.seconds / answered.count if answered else None,
            last_success_at=counters.succeeded_at.get(name),
            last_error=msgspec.convert(error, LastError, from_attributes=True) if error else None,
        )
    return PushStatus(waiting=waiting, overflowed=counters.overflowed, platforms=platforms)
