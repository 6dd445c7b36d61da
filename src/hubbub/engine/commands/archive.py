"""Archive of commands and results: messages of the channels `hCommands` and `hResults`."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from hubbub.domain.commands.objects import HCommand, HResult, write_command, write_result
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.requests import PublishItem
from hubbub.engine.commands.asking import Asker
from hubbub.engine.publishing import Publisher

logger = logging.getLogger(__name__)

COMMANDS = "hCommands"
RESULTS = "hResults"


class CommandArchive:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def keep(self, asker: Asker, command: HCommand, result: HResult) -> None:
        """Stores a command and its result under one new id. A failure to store them is logged and
        does not change the result."""
        correlation = asker.hub.next_message_id()
        for collection, value in (
            (COMMANDS, write_command(command)),
            (RESULTS, write_result(result)),
        ):
            kept = {k: v for k, v in value.items() if k not in ("reqid", "transient")}
            try:
                await self._store(asker, collection, correlation, kept)
            except HubbubError as error:
                logger.warning("hub %r: not stored in %s: %s", asker.hub.name, collection, error)

    async def _store(
        self, asker: Asker, collection: str, correlation: str, value: dict[str, Any]
    ) -> None:
        hub = asker.hub
        item = PublishItem(
            collection,
            "",
            msgspec.json.encode(value),
            JSON,
            store=True,
            attributes=Attributes(conversation_id=correlation),
        )
        identity = hub.service_for(asker.user_id)
        _, outcome = await self._publisher.settle(
            hub, identity, item, asker.technology, None, correlation
        )
        if outcome.error is not None:
            raise outcome.error
