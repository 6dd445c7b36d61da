"""Routes of what a hub keeps about a user."""

from __future__ import annotations

from hubbub.domain.errors import NotFound, Unavailable
from hubbub.engine.administration import Administration
from hubbub.gateways.admin.routes import Access, AdminRequest, Routes
from hubbub.gateways.admin.shapes import Shape, into
from hubbub.gateways.calls import NoQuery

USER_ROUTES = Routes(
    "/v1/admin/hubs/{hub}/users/{user}", "Users", Access.ADMIN, (NotFound, Unavailable)
)


class Erased(Shape, frozen=True):
    """How many of each went; `named` are notifications of others that the user wrote or read, and
    that no longer say so. `ownedChannels` belong to the hub from now on."""

    notifications: int
    named: int
    push_tokens: int
    push_subscriptions: int
    subscriptions: int
    participations: int
    owned_channels: int


@USER_ROUTES.serve("DELETE", "", answers={200: Erased})
async def erase_user(admin: Administration, request: AdminRequest[NoQuery, None]) -> Erased:
    """Erase what the hub keeps about a user: notifications, push tokens, subscriptions, and the
    user's part in channels with an owner."""
    return into(Erased, await admin.users.erase(request.actor, request.hub, request.path["user"]))
