"""The whole table of routes, and the application that serves it."""

from __future__ import annotations

import asyncio
from itertools import chain
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from hubbub.engine.administration import Administration
from hubbub.gateways.admin.access_routes import ACCESS_ROUTES, AUDIT_ROUTES
from hubbub.gateways.admin.analytics_routes import ANALYTICS_ROUTES
from hubbub.gateways.admin.app import AdminApplication
from hubbub.gateways.admin.communication_routes import (
    COMMUNICATION_ROUTES,
    OWN_COMMUNICATION_ROUTES,
)
from hubbub.gateways.admin.crud import PART_ROUTES
from hubbub.gateways.admin.live_routes import CHANNEL_ROUTES, FIGURE_ROUTES, SESSION_ROUTES
from hubbub.gateways.admin.openapi import describe
from hubbub.gateways.admin.public_routes import LIVE_ROUTES, SERVER_ROUTES
from hubbub.gateways.admin.push_routes import (
    OWN_PUSH_ROUTES,
    PUSH_ROUTES,
    USERS_PUSH_ROUTES,
)
from hubbub.gateways.admin.restore_routes import RESTORE_ROUTES
from hubbub.gateways.admin.settings_routes import HUB_ROUTES, SETTINGS_ROUTES
from hubbub.gateways.admin.subscription_routes import SUBSCRIPTION_ROUTES
from hubbub.gateways.admin.user_routes import USER_ROUTES
from hubbub.gateways.admin.webhook_routes import WEBHOOK_ROUTES
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.hub_api import HUB_ROUTES as HUBS_OWN_ROUTES
from hubbub.gateways.routes import AdminRequest, AnyRoute
from hubbub.ports.adapters import AdapterKinds
from hubbub.rooms import modules

_MAKING = Lock()
_made: WeakKeyDictionary[AdapterKinds, bytes] = WeakKeyDictionary()


def openapi_document(kinds: AdapterKinds) -> bytes:
    """Created once per set of adapter kinds, by the first thread that needs it."""
    with _MAKING:
        if kinds not in _made:
            _made[kinds] = describe(ROUTES, kinds)
        return _made[kinds]


@SERVER_ROUTES.serve("GET", "/openapi.json", answers={200: dict[str, Any]})
async def get_openapi(admin: Administration, request: AdminRequest[NoQuery, None]) -> bytes:
    """Read this description.

    It is created once, in a thread, so that its creation delays nobody else."""
    kinds = admin.communication.kinds
    made = _made.get(kinds)
    return made if made is not None else await asyncio.to_thread(openapi_document, kinds)


ROUTES: list[AnyRoute] = [
    *HUB_ROUTES,
    *RESTORE_ROUTES,
    *SETTINGS_ROUTES,
    *PART_ROUTES,
    *CHANNEL_ROUTES,
    *chain.from_iterable(room.ROUTES for room in modules("gateways", "admin_routes")),
    *USER_ROUTES,
    *SESSION_ROUTES,
    *FIGURE_ROUTES,
    *SUBSCRIPTION_ROUTES,
    *WEBHOOK_ROUTES,
    *COMMUNICATION_ROUTES,
    *OWN_COMMUNICATION_ROUTES,
    *ACCESS_ROUTES,
    *AUDIT_ROUTES,
    *OWN_PUSH_ROUTES,
    *USERS_PUSH_ROUTES,
    *PUSH_ROUTES,
    *ANALYTICS_ROUTES,
    *HUBS_OWN_ROUTES,
    *LIVE_ROUTES,
    *SERVER_ROUTES,
]


def make_application(administration: Administration) -> AdminApplication:
    return AdminApplication(administration, ROUTES)
