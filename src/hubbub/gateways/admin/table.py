"""The whole table of routes, and the application that serves it."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

from hubbub.engine.administration import Administration
from hubbub.gateways.admin.access_routes import ACCESS_ROUTES
from hubbub.gateways.admin.analytics_routes import ANALYTICS_ROUTES
from hubbub.gateways.admin.app import AdminApplication
from hubbub.gateways.admin.crud import PART_ROUTES
from hubbub.gateways.admin.live_routes import LIVE_ROUTES
from hubbub.gateways.admin.openapi import describe
from hubbub.gateways.admin.plain_webhook_routes import PLAIN_WEBHOOK_ROUTES
from hubbub.gateways.admin.public_routes import PUBLIC_ROUTES
from hubbub.gateways.admin.routes import Access, Answer, AnyRoute, Call, NoQuery, Route
from hubbub.gateways.admin.service_routes import SERVICE_ROUTES
from hubbub.gateways.admin.settings_routes import SETTINGS_ROUTES
from hubbub.gateways.admin.subscription_routes import SUBSCRIPTION_ROUTES
from hubbub.gateways.admin.topic_routes import TOPIC_ROUTES
from hubbub.gateways.admin.webhook_routes import WEBHOOK_ROUTES


@cache
def openapi_document() -> bytes:
    return describe(ROUTES)


async def _get_openapi(admin: Administration, call: Call[NoQuery, None]) -> Answer:
    """Made in a thread, once: it takes a moment for which nobody else should wait."""
    return Answer(await asyncio.to_thread(openapi_document))


ROUTES: list[AnyRoute] = [
    *SETTINGS_ROUTES,
    *PART_ROUTES,
    *LIVE_ROUTES,
    *SUBSCRIPTION_ROUTES,
    *WEBHOOK_ROUTES,
    *ACCESS_ROUTES,
    *ANALYTICS_ROUTES,
    *PUBLIC_ROUTES,
    *TOPIC_ROUTES,
    *SERVICE_ROUTES,
    *PLAIN_WEBHOOK_ROUTES,
    Route(
        method="GET",
        path="/openapi.json",
        operation_id="getOpenapi",
        tag="Server",
        summary="This description",
        access=Access.ANYONE,
        handler=_get_openapi,
        query=NoQuery,
        answers={200: dict[str, Any]},
    ),
]


def make_application(administration: Administration) -> AdminApplication:
    return AdminApplication(administration, ROUTES)
