"""Commands and results that are stored, as messages of the channels `hCommands` and `hResults`."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from hubbub.domain.commands.objects import HCommand, HResult, write_command, write_result
from hubbub.domain.commands.status import CommandRefused
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.requests import PublishItem
from hubbub.engine.commands.asking import Asker, Extensions
from hubbub.engine.hub import Hub
from hubbub.engine.publishing import Publisher

logger = logging.getLogger(__name__)

COMMANDS = "hCommands"
RESULTS = "hResults"


class CommandArchive:
    def __init__(self, publisher: Publisher, extensions: Extensions) -> None:
        self._publisher = publisher
        self._extensions = extensions

    async def keep(self, asker: Asker, command: HCommand, result: HResult) -> None:
        """Both under one id that the hub makes. What cannot be stored is logged, and changes
        nothing about the result."""
        correlation = asker.hub.next_message_id()
        for collection, value in (
            (COMMANDS, write_command(command)),
            (RESULTS, write_result(result)),
        ):
            kept = {k: v for k, v in value.items() if k not in ("reqid", "transient")}
            try:
                await self._store(asker, collection, correlation, command.cmd, kept)
            except (HubbubError, CommandRefused) as error:
                logger.warning("not stored in %s of hub %r: %s", collection, asker.hub.name, error)

    async def _store(
        self, asker: Asker, collection: str, correlation: str, event: str, value: dict[str, Any]
    ) -> None:
        hub: Hub = asker.hub
        await self._extensions.hooks.validate(hub, collection, value)
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
        await self._extensions.hooks.saved(hub, collection, value)
