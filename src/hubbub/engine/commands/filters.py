"""Commands that manage the filters of the sender's session."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from hubbub.domain.commands.attributes import read_required_text, read_text
from hubbub.domain.commands.jids import channel_id, parse_channel
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.filters.definition import HMESSAGE_NAMES, PARTS, FilterDefinition
from hubbub.domain.filters.filters import compile_filter
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.parameters import valid_object
from hubbub.engine.commands.records import ChannelRecords
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.filtering import SessionFilters


class FilterCommands:
    def __init__(self, filters: SessionFilters, records: ChannelRecords) -> None:
        self._filters = filters
        self._records = records

    async def set(self, asker: Asker, params: Any) -> Any:
        session, given = _session(asker), valid_object(params)
        name = read_required_text(given, "name")
        channel = _channel(asker, given)
        if channel is not None:
            self._records.check(asker, channel)
        parts = {part: given.get(part) for part in PARTS}
        definition = FilterDefinition(name, channel, names=HMESSAGE_NAMES, **parts)
        await self._filters.set(session, compile_filter(definition))
        return UNSET

    async def unset(self, asker: Asker, params: Any) -> Any:
        session, given = _session(asker), valid_object(params)
        name = read_required_text(given, "name")
        await self._filters.unset(session, name, _channel(asker, given))
        return UNSET

    async def listed(self, asker: Asker, params: Any) -> Any:
        session = _session(asker)
        channel = None if params is None else _channel(asker, valid_object(params))
        return [_written(each, asker.hub.name) for each in session.filters.listed(channel)]


def _session(asker: Asker) -> SessionState:
    if asker.session is None:
        raise CommandRefused(Status.NOT_CONNECTED, "filters belong to a session; connect first")
    return asker.session


def _channel(asker: Asker, params: dict[str, Any]) -> str | None:
    text = read_text(params, "chid")
    return None if text is None else parse_channel(text, asker.hub.name)


def _written(definition: FilterDefinition, domain: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": definition.name}
    if definition.channel is not None:
        shown["chid"] = channel_id(definition.channel, domain)
    parts = ((part, getattr(definition, part)) for part in PARTS)
    return shown | {part: value for part, value in parts if value is not None}
