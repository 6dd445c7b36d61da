"""Routes of a user's data."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.engine.administration import Administration
from hubbub.gateways.admin.shapes import Shape, into
from hubbub.gateways.routes import Access, AdminRequest, Routes

USER_ROUTES = Routes(
    "/v1/admin/hubs/{hub}/users/{user}", "Users", Access.ADMIN, (NotFound, Unavailable)
)


class Erased(Shape, frozen=True):
    """Numbers of erased items by kind; `named` counts notifications of other users from which the
    user's id was removed as author or reader. `ownedChannels` now belong to the hub. Of `messages`
    that the user published only the serials remain; `retained` ones were deleted. `documentChanges`
    lost their author, and `producers` were renamed to a random alias. `left` counts items that a
    final search still found."""

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
    retained: int
    document_changes: int
    producers: int
    left: int


class EraseQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    revoke: Annotated[
        bool, Meta(description="Revoke the user's tokens first, which ends all sessions.")
    ] = False


@USER_ROUTES.serve("DELETE", "", answers={200: Erased})
async def erase_user(admin: Administration, request: AdminRequest[EraseQuery, None]) -> Erased:
    """Erase what the hub keeps about a user: notifications, push tokens, subscriptions of every
    kind, webhooks, the peer of the same name, the user's part in channels with an owner, and the
    content of stored and retained messages that the user published, sent or got."""
    revoke = admin.access.revoke if request.query.revoke else None
    user = request.path["user"]
    return into(Erased, await admin.users.erase(request.actor, request.hub, user, revoke))
