"""Routes of tokens, revocations, push tokens, logins and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain import permissions
from hubbub.domain.errors import (
    AuthProviderFailed,
    BadRequest,
    InvalidToken,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    RateLimited,
)
from hubbub.domain.fields import Text
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.access.tokens import IssuedToken
from hubbub.engine.administration import Administration
from hubbub.engine.administration.access import RevocationKind
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.conversion import into
from hubbub.gateways.admin.paging import given, make_page
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route
from hubbub.ports.storage.administration import AuditEntry, AuditQuery, Revocation

_HUB = "/v1/admin/hubs/{hub}"
_OWN_PUSH = "/v1/hubs/{hub}/push-tokens"
_USERS_PUSH = f"{_HUB}/users/{{user}}/push-tokens"


class AuditFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: (
        Annotated[int, Meta(ge=0, le=2**62, description="`next` of the page before.")] | UnsetType
    ) = UNSET
    actor: Annotated[Text, Meta(description="Only changes by this user.")] | UnsetType = UNSET
    action: (
        Annotated[Text, Meta(description="Only of this kind, such as rules.put.")] | UnsetType
    ) = UNSET


class RevocationQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: shapes.Cursor = ""


def _hub_or_all(admin: Administration, call: Call[Any, Any]) -> str:
    """The hub in the path, which exists, or `*`."""
    hub = call.path.get("hub")
    if hub is None:
        return ANY_HUB
    return admin.hubs.configuration(hub).hub


# -- tokens ---------------------------------------------------------------------------------------


def _token(issued: IssuedToken, user_id: str | None) -> shapes.Token:
    return shapes.Token(
        token=issued.token,
        token_id=issued.token_id,
        expires_at=issued.expires_at,
        user_id=user_id,
    )


async def issue_token(admin: Administration, call: Call[NoQuery, shapes.TokenRequest]) -> Answer:
    body = call.body
    try:
        identity = permissions.Identity(
            user_id=body.user_id,
            level=permissions.Level(body.level),
            grants=tuple(into(permissions.Grant, grant) for grant in body.channels),
            rpcs=body.rpcs,
            extra=body.extra,
        )
    except InvalidToken as error:
        raise BadRequest(f"no token can say this: {error.message}") from None
    issued = await admin.access.issue(call.actor, call.hub, identity, body.ttl_seconds)
    return Answer(_token(issued, body.user_id), 201)


async def refresh_token(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    issued = admin.access.renew(call.actor, _hub_or_all(admin, call))
    return Answer(_token(issued, call.actor.identity.user_id))


async def log_in(admin: Administration, call: Call[NoQuery, dict[str, Any]]) -> Answer:
    identity, issued = await admin.access.log_in(call.raw, call.address)
    return Answer(_token(issued, identity.user_id))


# -- revocations ----------------------------------------------------------------------------------


def _revocation(found: Revocation) -> shapes.RevocationView:
    return into(shapes.RevocationView, found)


async def revoke(admin: Administration, call: Call[NoQuery, shapes.Revocation]) -> Answer:
    body = call.body
    kind: RevocationKind = "hub"
    if not isinstance(body, shapes.RevokeHub):
        kind = "token" if isinstance(body, shapes.RevokeToken) else "user"
    subject = "" if isinstance(body, shapes.RevokeHub) else body.subject
    revoked = await admin.access.revoke(call.actor, _hub_or_all(admin, call), kind, subject)
    return Answer(_revocation(revoked), 201)


async def list_revocations(admin: Administration, call: Call[RevocationQuery, None]) -> Answer:
    every = await admin.access.revocations(_hub_or_all(admin, call))
    keys = [f"{each.kind}/{each.subject}" for each in every]
    start = next((i for i, key in enumerate(keys) if key > call.query.cursor), len(keys))
    end = start + call.query.limit
    following = keys[end - 1] if len(keys) > end else None
    return Answer(make_page([_revocation(each) for each in every[start:end]], following))


# -- audit ----------------------------------------------------------------------------------------


async def read_audit(admin: Administration, call: Call[AuditFilter, None]) -> Answer:
    query = call.query
    hub = call.path.get("hub")
    if hub is not None:
        admin.hubs.configuration(hub)
    found = await admin.audit.read(
        AuditQuery(
            query.limit + 1, hub, given(query.actor), given(query.action), given(query.cursor)
        )
    )
    page = found[: query.limit]
    more = len(found) > query.limit
    return Answer(make_page([_audit(each) for each in page], str(page[-1].id) if more else None))


def _audit(entry: AuditEntry) -> shapes.AuditView:
    return shapes.AuditView(
        id=entry.id,
        at=entry.at,
        hub=entry.hub,
        actor=entry.actor,
        level=entry.level,
        action=entry.action,
        name=entry.name,
        token_id=entry.token_id,
        before=None if entry.before is None else msgspec.json.decode(entry.before),
        after=None if entry.after is None else msgspec.json.decode(entry.after),
    )


# -- push tokens ----------------------------------------------------------------------------------


def _user(call: Call[Any, Any]) -> str:
    """The user in the path, else the caller."""
    user = call.path.get("user") or call.actor.identity.user_id
    if user is None:
        raise BadRequest("the token names no user, who could have push tokens")
    return user


async def list_push_tokens(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    found = await admin.push_tokens.all(call.hub, _user(call))
    items = [shapes.PushToken(platform=each.platform, token=each.token) for each in found]
    return Answer(shapes.PushTokens(items=items))


async def put_push_token(admin: Administration, call: Call[NoQuery, shapes.PushToken]) -> Answer:
    body = call.body
    await admin.push_tokens.register(call.actor, call.hub, _user(call), body.platform, body.token)
    return Answer(body)


async def delete_push_token(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    await admin.push_tokens.delete(
        call.actor, call.hub, _user(call), call.path["platform"], call.path["token"]
    )
    return Answer(status=204)


def _push_routes(path: str, suffix: str, whose: str, access: Access) -> list[AnyRoute]:
    return [
        Route(
            method="GET", path=path, operation_id=f"listPushTokens{suffix}", tag="Push tokens",
            summary=f"List {whose} push tokens", access=access, handler=list_push_tokens,
            query=NoQuery, answers={200: shapes.PushTokens}, errors=(NotFound,),
        ),
        Route(
            method="PUT", path=path, operation_id=f"putPushToken{suffix}", tag="Push tokens",
            summary=f"Register one of {whose} push tokens", access=access,
            handler=put_push_token, query=NoQuery, body=shapes.PushToken,
            answers={200: shapes.PushToken}, errors=(NotFound, QuotaExceeded),
        ),
        Route(
            method="DELETE", path=f"{path}/{{platform}}/{{token}}",
            operation_id=f"deletePushToken{suffix}", tag="Push tokens",
            summary=f"Delete one of {whose} push tokens", access=access,
            handler=delete_push_token, query=NoQuery, answers={204: None}, errors=(NotFound,),
        ),
    ]  # fmt: skip


ACCESS_ROUTES: list[AnyRoute] = [
    Route(
        method="POST", path="/v1/admin/login", operation_id="logIn", tag="Access",
        summary="Get a token of the level admin from `admin.url`, which gets the body as it is",
        access=Access.ANYONE, handler=log_in, query=NoQuery, body=dict[str, Any],
        answers={200: shapes.Token}, max_body_bytes=16 * 1024,
        errors=(NotAuthenticated, NotFound, RateLimited, AuthProviderFailed),
    ),
    Route(
        method="POST", path="/v1/admin/token/refresh", operation_id="refreshAdminToken",
        tag="Access", summary="Exchange an administrator's token for a newer one",
        access=Access.ADMIN, handler=refresh_token, query=NoQuery, answers={200: shapes.Token},
    ),
    Route(
        method="POST", path="/v1/hubs/{hub}/token/refresh", operation_id="refreshToken",
        tag="Access", summary="Exchange a token for a newer one", access=Access.CLIENT,
        handler=refresh_token, query=NoQuery, answers={200: shapes.Token},
    ),
    Route(
        method="POST", path=f"{_HUB}/tokens", operation_id="issueToken", tag="Access",
        summary="Issue a token; the level service takes an administrator",
        access=Access.SERVICE, handler=issue_token, query=NoQuery, body=shapes.TokenRequest,
        answers={201: shapes.Token}, errors=(NotFound, NotPermitted),
    ),
    Route(
        method="POST", path=f"{_HUB}/revocations", operation_id="revoke", tag="Access",
        summary="Revoke tokens of a hub and end the sessions that they opened",
        access=Access.SERVICE, handler=revoke, query=NoQuery, body=shapes.Revocation,
        answers={201: shapes.RevocationView}, errors=(NotFound,),
    ),
    Route(
        method="GET", path=f"{_HUB}/revocations", operation_id="listRevocations", tag="Access",
        summary="List the revocations of a hub", access=Access.SERVICE,
        handler=list_revocations, query=RevocationQuery,
        answers={200: shapes.Page[shapes.RevocationView]},
    ),
    Route(
        method="POST", path="/v1/admin/revocations", operation_id="revokeEverywhere",
        tag="Access", summary="Revoke tokens in all hubs, those of administrators among them",
        access=Access.ADMIN, handler=revoke, query=NoQuery, body=shapes.Revocation,
        answers={201: shapes.RevocationView},
    ),
    Route(
        method="GET", path="/v1/admin/revocations", operation_id="listGlobalRevocations",
        tag="Access", summary="List the revocations that hold in all hubs", access=Access.ADMIN,
        handler=list_revocations, query=RevocationQuery,
        answers={200: shapes.Page[shapes.RevocationView]},
    ),
    Route(
        method="GET", path="/v1/admin/audit", operation_id="readAudit", tag="Audit",
        summary="Read who changed what in all hubs, the newest first", access=Access.ADMIN,
        handler=read_audit, query=AuditFilter, answers={200: shapes.Page[shapes.AuditView]},
    ),
    Route(
        method="GET", path=f"{_HUB}/audit", operation_id="readHubAudit", tag="Audit",
        summary="Read who changed what in a hub, the newest first", access=Access.SERVICE,
        handler=read_audit, query=AuditFilter, answers={200: shapes.Page[shapes.AuditView]},
        errors=(NotFound,),
    ),
    *_push_routes(_OWN_PUSH, "", "one's own", Access.CLIENT),
    *_push_routes(_USERS_PUSH, "OfUser", "a user's", Access.SERVICE),
]  # fmt: skip
