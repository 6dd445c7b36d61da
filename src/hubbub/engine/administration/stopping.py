"""Stops a server at an administrator's request, through any gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hubbub.domain.errors import NotPermitted
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog

logger = logging.getLogger(__name__)


class ServerStop:
    """Stops the server as SIGTERM does."""

    def __init__(self, audit: AuditLog, request_stop: Callable[[], None], node_name: str) -> None:
        self._audit = audit
        self._request_stop = request_stop
        self.node_name = node_name

    async def request(self, actor: Actor, technology: str) -> None:
        """The server drains and exits after this turn of the event loop, so that the caller still
        gets a response. Raises `NotPermitted` for the administrator of one hub, since the server
        serves all hubs."""
        if not actor.is_operator:
            raise NotPermitted("only an administrator of all hubs may shut the server down")
        await self._audit.note(actor, "server.shutdown", ANY_HUB, self.node_name)
        logger.warning("%s asked over %s for the server to stop", actor.name, technology)
        asyncio.get_running_loop().call_soon(self._request_stop)
