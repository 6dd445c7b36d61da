"""The document service, for sessions, HTTP and administration."""

from __future__ import annotations

import asyncio

import msgspec

from hubbub.domain.asking import OrderedRequest
from hubbub.domain.documents.changes import (
    MERGE_PATCH,
    PATCH,
    ChangeOptions,
    ChangeOutcome,
    DocumentAnswer,
    DocumentQuery,
)
from hubbub.domain.documents.requests import ApplyChange, check_change, check_kind
from hubbub.domain.documents.values import DocumentLimits
from hubbub.domain.errors import Internal, NotPermitted
from hubbub.domain.messages import Message
from hubbub.domain.names import check_name
from hubbub.domain.permissions import Identity, may_subscribe
from hubbub.domain.requests import Producer
from hubbub.engine.hub import Hub
from hubbub.engine.publishing import Publisher, RequestItem
from hubbub.ports.bus import Bus, PublishOutcome, PublishReply

_KINDS = {"patch": PATCH, "merge": MERGE_PATCH, "delete": PATCH}


class _ChangeItem(RequestItem, frozen=True, kw_only=True):
    options: ChangeOptions
    limits: DocumentLimits

    def check(self) -> None:
        check_change(self.channel, self.payload, self.options, self.limits)

    def request(self, message: Message) -> OrderedRequest[ChangeOutcome]:
        return ApplyChange(message, self.options)


class Changed(msgspec.Struct, frozen=True):
    """`duplicate`: the change was applied before, and led to this version then."""

    outcome: ChangeOutcome
    duplicate: bool = False


class Documents:
    """Reading needs the permission to subscribe, changing that to publish."""

    def __init__(self, bus: Bus, publisher: Publisher, limits: DocumentLimits) -> None:
        self._bus = bus
        self._limits = limits
        self._publisher = publisher

    async def get(self, hub: Hub, identity: Identity, query: DocumentQuery) -> DocumentAnswer:
        """Raises `NotPermitted`, `WrongChannelKind`, `NotFound`, `InvalidPatch`, `HistoryGone`."""
        channel = check_name(query.channel, "channel")
        if not may_subscribe(identity, channel, hub.rules_for(channel), hub.user_channels):
            raise NotPermitted(f"no permission to read {channel!r}")
        check_kind(channel)
        await hub.consent(identity, channel)
        return await self._bus.ask(query)

    def item(
        self, channel: str, patch: bytes, options: ChangeOptions, producer: Producer | None = None
    ) -> RequestItem:
        """A change to publish. Raises `InvalidName`."""
        return _ChangeItem(
            check_name(channel, "channel"),
            "DocumentChange",
            patch,
            _KINDS[options.kind],
            store=True,
            producer=producer,
            options=options,
            limits=self._limits,
        )

    def change(
        self,
        hub: Hub,
        identity: Identity,
        item: RequestItem,
        reply: PublishReply | None,
        technology: str | None = None,
        session: str | None = None,
    ) -> None:
        """Sends the change to the owner. Raises the errors of `Publisher.check` without calling
        `reply`; the owner's errors are passed to `reply`."""
        self._publisher.publish(hub, identity, item, reply, technology, session)

    async def settle(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        patch: bytes,
        options: ChangeOptions,
        producer: Producer | None = None,
        technology: str | None = None,
    ) -> Changed:
        """Changes the document and returns once the change is on disk. Raises the error of a
        refused change."""
        done: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if not done.done():  # else whoever waited is gone
                done.set_result(outcome)

        item = self.item(channel, patch, options, producer)
        self.change(hub, identity, item, conclude, technology)
        return changed(await done)


def changed(outcome: PublishOutcome) -> Changed:
    """Raises the error of a refused change."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.change is None:
        raise Internal("the owner of the document gave no answer")
    return Changed(outcome.change, outcome.duplicate)
