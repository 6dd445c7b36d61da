"""The end of a server that an administrator asks for, by whichever door."""

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
        """The server drains and ends once this turn of the loop is over, so that the caller still
        gets an answer. Raises `NotPermitted`: the server serves all hubs, so the administrator of
        one hub may not end it."""
        if not actor.is_operator:
            raise NotPermitted("only an administrator of all hubs may shut the server down")
        await self._audit.note(actor, "server.shutdown", ANY_HUB, self.node_name)
        logger.warning("%s asked over %s for the server to stop", actor.name, technology)
        asyncio.get_running_loop().call_soon(self._request_stop)
