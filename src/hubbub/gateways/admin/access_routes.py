"""Routes of tokens, revocations, logins and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain import permissions
from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import (
    AuthProviderFailed,
    BadRequest,
    InvalidToken,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    RateLimited,
)
from hubbub.domain.fields import Text
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.access.tokens import IssuedToken
from hubbub.engine.administration import Administration
from hubbub.engine.administration.access import RevocationKind
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import PageQuery, cut, make_page
from hubbub.gateways.admin.shapes import into
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.ports.storage.administration import AuditQuery, Revocation

ACCESS_ROUTES = Routes("/v1", "Access", Access.ADMIN)
AUDIT_ROUTES = Routes("/v1/admin", "Audit", Access.ADMIN)


class AuditFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: shapes.Limit = 100
    cursor: (
        Annotated[int, Meta(ge=0, le=2**62, description="`next` of the page before.")] | UnsetType
    ) = UNSET
    actor: Annotated[Text, Meta(description="Only changes by this user.")] | UnsetType = UNSET
    action: (
        Annotated[Text, Meta(description="Only of this kind, such as rules.put.")] | UnsetType
    ) = UNSET
    since: Annotated[datetime, Meta(tz=True, description="Only from this time on.")] | UnsetType = (
        UNSET
    )
    until: Annotated[datetime, Meta(tz=True, description="Only before this time.")] | UnsetType = (
        UNSET
    )


def _hub_or_all(admin: Administration, request: AdminRequest[Any, Any]) -> str:
    """The hub in the path, which exists, or `*`."""
    hub = request.path.get("hub")
    return ANY_HUB if hub is None else admin.hubs.configuration(hub).hub


# -- tokens ---------------------------------------------------------------------------------------


def _token(issued: IssuedToken, user_id: str | None) -> shapes.Token:
    return shapes.Token(
        token=issued.token,
        token_id=issued.token_id,
        expires_at=issued.expires_at,
        user_id=user_id,
    )


@ACCESS_ROUTES.serve(
    "POST", "/admin/login", access=Access.ANYONE, max_body_bytes=16 * 1024,
    errors=(NotAuthenticated, NotFound, RateLimited, AuthProviderFailed),
)  # fmt: skip
async def log_in(
    admin: Administration, request: AdminRequest[NoQuery, dict[str, Any]]
) -> shapes.Token:
    """Get a token of the level admin from `admin.url`, which gets the body as it is."""
    identity, issued = await admin.access.log_in(request.raw, request.address)
    return _token(issued, identity.user_id)


@ACCESS_ROUTES.serve(
    "POST", "/hubs/{hub}/token", access=Access.ANYONE, reads_itself=True,
    max_body_bytes=16 * 1024, errors=(NotAuthenticated, RateLimited, AuthProviderFailed),
)  # fmt: skip
async def exchange_credentials(
    admin: Administration, request: AdminRequest[NoQuery, Any]
) -> shapes.ClientToken:
    """Get a token from the hub's auth provider, which gets the body as it is."""
    hub = request.path["hub"]
    identity, issued = await admin.access.exchange(hub, request.raw, request.address)
    return shapes.ClientToken(
        token=issued.token,
        token_id=issued.token_id,
        expires_at=issued.expires_at,
        user_id=identity.user_id,
        extra=identity.extra,
    )


@ACCESS_ROUTES.serve("POST", "/hubs/{hub}/token/refresh", access=Access.CLIENT, own=True)
@ACCESS_ROUTES.serve(
    "POST", "/admin/token/refresh", name="refreshAdminToken", own=True,
    summary="Exchange an administrator's token for a newer one",
)  # fmt: skip
async def refresh_token(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> shapes.Token:
    """Exchange a token for a newer one."""
    issued = admin.access.renew(request.actor, _hub_or_all(admin, request))
    return _token(issued, request.actor.identity.user_id)


@ACCESS_ROUTES.serve(
    "POST", "/admin/hubs/{hub}/tokens", access=Access.SERVICE, answers={201: shapes.Token},
    errors=(NotFound, NotPermitted),
)  # fmt: skip
async def issue_token(
    admin: Administration, request: AdminRequest[NoQuery, shapes.TokenRequest]
) -> shapes.Token:
    """Issue a token. Only an administrator may issue one of the level service."""
    body = request.body
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
    issued = await admin.access.issue(request.actor, request.hub, identity, body.ttl_seconds)
    return _token(issued, body.user_id)


# -- revocations ----------------------------------------------------------------------------------


def _revocation(found: Revocation) -> shapes.RevocationView:
    return into(shapes.RevocationView, found)


async def revoke(
    admin: Administration, request: AdminRequest[NoQuery, shapes.Revocation]
) -> shapes.RevocationView:
    """Revoke tokens of a hub and end the sessions that they opened."""
    body = request.body
    kind: RevocationKind = "hub"
    if not isinstance(body, shapes.RevokeHub):
        kind = "token" if isinstance(body, shapes.RevokeToken) else "user"
    subject = "" if isinstance(body, shapes.RevokeHub) else body.subject
    hub = _hub_or_all(admin, request)
    return _revocation(await admin.access.revoke(request.actor, hub, kind, subject))


async def list_revocations(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[shapes.RevocationView]:
    """List the revocations of a hub."""
    query = request.query
    every = await admin.access.revocations(_hub_or_all(admin, request))
    behind = [each for each in every if _cursor(each) > query.cursor]
    page, following = cut(behind, query.limit, _cursor)
    return make_page([_revocation(each) for each in page], following)


def _cursor(revocation: Revocation) -> str:
    return f"{revocation.kind}/{revocation.subject}"


_REVOKED = {201: shapes.RevocationView}
_OF_HUB, _OF_ALL = "/admin/hubs/{hub}/revocations", "/admin/revocations"
ACCESS_ROUTES.serve(
    "POST", _OF_HUB, access=Access.SERVICE, answers=_REVOKED, errors=(NotFound,)
)(revoke)  # fmt: skip
ACCESS_ROUTES.serve("GET", _OF_HUB, access=Access.SERVICE)(list_revocations)
ACCESS_ROUTES.serve(
    "POST", _OF_ALL, name="revokeEverywhere", answers=_REVOKED,
    summary="Revoke tokens in all hubs, those of administrators among them",
)(revoke)  # fmt: skip
ACCESS_ROUTES.serve(
    "GET", _OF_ALL, name="listGlobalRevocations",
    summary="List the revocations that hold in all hubs",
)(list_revocations)  # fmt: skip


# -- audit ----------------------------------------------------------------------------------------


@AUDIT_ROUTES.serve(
    "GET", "/hubs/{hub}/audit", name="readHubAudit", access=Access.SERVICE, errors=(NotFound,),
    summary="Read who changed what in a hub, the newest first",
)  # fmt: skip
@AUDIT_ROUTES.serve("GET", "/audit")
async def read_audit(
    admin: Administration, request: AdminRequest[AuditFilter, None]
) -> shapes.Page[shapes.AuditView]:
    """Read who changed what in all hubs, the newest first."""
    query, hub = request.query, request.path.get("hub")
    if hub is not None:
        admin.hubs.configuration(hub)
    found = await admin.audit.read(
        AuditQuery(
            query.limit + 1,
            hub,
            given(query.actor),
            given(query.action),
            given(query.cursor),
            _milliseconds(given(query.since)),
            _milliseconds(given(query.until)),
        )
    )
    page, following = cut(found, query.limit, lambda entry: str(entry.id))
    return make_page([_audit(each) for each in page], following)


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)


def _audit(entry: AuditEntry) -> shapes.AuditView:
    stored = {"before": entry.before, "after": entry.after}
    read = {name: text and msgspec.json.decode(text) for name, text in stored.items()}
    return shapes.AuditView(**{**msgspec.structs.asdict(entry), **read})
