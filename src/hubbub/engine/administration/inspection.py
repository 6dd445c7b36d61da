"""One channel in detail: its rules with their source, and its stored messages."""

from __future__ import annotations

import msgspec

from hubbub.domain.fields import wire_name
from hubbub.domain.messages import JSON, TEXT
from hubbub.domain.names import check_name
from hubbub.domain.rules import Rules, RulesSource
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.survey import CountSessions, Survey
from hubbub.engine.node import Node
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import Retained

_MOST_MEASURED = 100_000
"""Maximum number of messages whose sizes are summed."""
_MOST_SHOWN_BYTES = 64 * 1024


class RetainedView(msgspec.Struct, frozen=True, rename=wire_name, omit_defaults=True):
    """`payload` is there where it was asked for and is text or JSON of at most 64 KiB. Times are in
    ms since 1970."""

    msg_id: str
    event: str
    published_at: int
    expires_at: int
    content_type: str
    bytes: int
    publisher: str | None = None
    payload: str | None = None


class ChannelInspection(msgspec.Struct, frozen=True, rename=wire_name):
    """A channel. `source` says whose `rules` hold, `rulesName` which; without a name they are those
    of a hub that sets none. `owner` is who decides about a channel that has an owner. `stored` and
    `storedBytes` count at most the newest 100,000 messages; `head` is the newest serial."""

    channel: str
    source: RulesSource
    rules_name: str | None
    rules: Rules
    sessions: int
    epoch: str | None
    head: str
    stored: int
    stored_bytes: int
    retained: RetainedView | None
    owner: str | None = None


class Inspector:
    def __init__(self, node: Node, store: Store, audit: AuditLog, survey: Survey) -> None:
        self._node = node
        self._store = store
        self._audit = audit
        self._survey = survey

    async def used_bytes(self, hub: str) -> int:
        """The bytes that count against the hub's storage quota. Raises `StoreUnavailable`."""
        return await self._store.used_bytes(hub)

    async def channel(
        self, actor: Actor, hub: str, channel: str, payload: bool = False
    ) -> ChannelInspection:
        """`payload`: include the payload of the retained message, which is recorded in the audit
        log. Raises `HubNotFound`, `InvalidName`."""
        configuration = self._node.directory.get(hub)
        check_name(channel, "channel")
        source, name = configuration.source_of(channel)
        head = await self._store.read_head(hub, channel)
        stored, size = (0, 0)
        if head is not None:
            stored, size = await self._store.measure(hub, channel, _MOST_MEASURED)
        now = int(self._node.clock.now() * 1000)
        retained = await self._store.read_retained(hub, channel, now)
        answers, _ = await self._survey.ask(CountSessions(hub, channel))
        if payload and retained is not None:
            await self._audit.note(actor, "message.read", hub, channel)
        binding = configuration.binding_of(channel)
        rules = configuration.rules_for(channel)
        return ChannelInspection(
            channel=channel,
            source=source,
            rules_name=name,
            rules=Rules(**{field: getattr(rules, field) for field in Rules.__struct_fields__}),
            sessions=sum(answers),
            epoch=head.epoch if head is not None else None,
            head=str(head.head if head is not None else 0),
            stored=stored,
            stored_bytes=size,
            retained=None if retained is None else _view(retained, payload),
            owner=binding.owner if binding is not None else None,
        )


def _view(retained: Retained, payload: bool) -> RetainedView:
    message = retained.message
    shown = payload and message.content_type in (JSON, TEXT)
    if len(message.payload) > _MOST_SHOWN_BYTES:
        shown = False
    return RetainedView(
        msg_id=message.id,
        event=message.event,
        published_at=message.published_at,
        expires_at=retained.expires_at,
        content_type=message.content_type,
        bytes=len(message.payload),
        publisher=message.publisher,
        payload=message.payload.decode(errors="replace") if shown else None,
    )
