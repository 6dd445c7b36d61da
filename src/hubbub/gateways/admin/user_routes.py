"""Routes of what a hub keeps about a user."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.engine.administration import Administration
from hubbub.gateways.admin.routes import Access, AdminRequest, Routes
from hubbub.gateways.admin.shapes import Shape, into

USER_ROUTES = Routes(
    "/v1/admin/hubs/{hub}/users/{user}", "Users", Access.ADMIN, (NotFound, Unavailable)
)


class Erased(Shape, frozen=True):
    """How many of each went; `named` are notifications of others that the user wrote or read, and
    that no longer say so. `ownedChannels` belong to the hub from now on. `messages` that the user
    published keep their serials, and neither publisher nor content. `left` is what a search
    afterwards still found."""

    notifications: int
    named: int
    push_tokens: int
    push_subscriptions: int
    subscriptions: int
    participations: int
    owned_channels: int
    durable_subscriptions: int
    webhooks: int
    peer_subscriptions: int
    peers: int
    sessions: int
    messages: int
    left: int


class EraseQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    revoke: Annotated[
        bool, Meta(description="Revoke the user's tokens first, which ends all sessions.")
    ] = False


@USER_ROUTES.serve("DELETE", "", answers={200: Erased})
async def erase_user(admin: Administration, request: AdminRequest[EraseQuery, None]) -> Erased:
    """Erase what the hub keeps about a user: notifications, push tokens, subscriptions of every
    kind, webhooks, the peer of the same name, the user's part in channels with an owner, and the
    content of stored messages that the user published, sent or got."""
    revoke = admin.access.revoke if request.query.revoke else None
    user = request.path["user"]
    return into(Erased, await admin.users.erase(request.actor, request.hub, user, revoke))
