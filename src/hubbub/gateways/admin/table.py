"""The whole table of routes, and the application that serves it."""

from __future__ import annotations

import asyncio
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
    PUBLIC_COMMUNICATION_ROUTES,
)
from hubbub.gateways.admin.crud import PART_ROUTES
from hubbub.gateways.admin.document_routes import DOCUMENT_ROUTES, PUBLIC_DOCUMENT_ROUTES
from hubbub.gateways.admin.live_routes import CHANNEL_ROUTES, FIGURE_ROUTES, SESSION_ROUTES
from hubbub.gateways.admin.notification_routes import (
    NOTIFICATION_ROUTES,
    PUBLIC_NOTIFICATION_ROUTES,
)
from hubbub.gateways.admin.openapi import describe
from hubbub.gateways.admin.plain_webhook_routes import PLAIN_WEBHOOK_ROUTES
from hubbub.gateways.admin.public_routes import PUBLIC_ROUTES, SERVER_ROUTES
from hubbub.gateways.admin.push_routes import (
    OWN_PUSH_ROUTES,
    PUSH_ROUTES,
    USERS_PUSH_ROUTES,
)
from hubbub.gateways.admin.restore_routes import RESTORE_ROUTES
from hubbub.gateways.admin.routes import AdminRequest, AnyRoute
from hubbub.gateways.admin.service_routes import SERVICE_ROUTES
from hubbub.gateways.admin.settings_routes import HUB_ROUTES, SETTINGS_ROUTES
from hubbub.gateways.admin.subscription_routes import SUBSCRIPTION_ROUTES
from hubbub.gateways.admin.topic_routes import TOPIC_ROUTES
from hubbub.gateways.admin.user_routes import USER_ROUTES
from hubbub.gateways.admin.webhook_routes import WEBHOOK_ROUTES
from hubbub.gateways.calls import NoQuery
from hubbub.ports.adapters import AdapterKinds

_MAKING = Lock()
_made: WeakKeyDictionary[AdapterKinds, bytes] = WeakKeyDictionary()


def openapi_document(kinds: AdapterKinds) -> bytes:
    """Made once for the kinds of a server, by whichever thread asks first."""
    with _MAKING:
        if kinds not in _made:
            _made[kinds] = describe(ROUTES, kinds)
        return _made[kinds]


@SERVER_ROUTES.serve("GET", "/openapi.json", answers={200: dict[str, Any]})
async def get_openapi(admin: Administration, request: AdminRequest[NoQuery, None]) -> bytes:
    """This description.

    Made in a thread, once: it takes a moment for which nobody else should wait."""
    kinds = admin.communication.kinds
    made = _made.get(kinds)
    return made if made is not None else await asyncio.to_thread(openapi_document, kinds)


ROUTES: list[AnyRoute] = [
    *HUB_ROUTES,
    *RESTORE_ROUTES,
    *SETTINGS_ROUTES,
    *PART_ROUTES,
    *CHANNEL_ROUTES,
    *NOTIFICATION_ROUTES,
    *DOCUMENT_ROUTES,
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
    *PUBLIC_ROUTES,
    *TOPIC_ROUTES,
    *PUBLIC_NOTIFICATION_ROUTES,
    *PUBLIC_DOCUMENT_ROUTES,
    *SERVICE_ROUTES,
    *PLAIN_WEBHOOK_ROUTES,
    *PUBLIC_COMMUNICATION_ROUTES,
    *SERVER_ROUTES,
]


def make_application(administration: Administration) -> AdminApplication:
    return AdminApplication(administration, ROUTES)
