"""Documents, for whoever asks: sessions, HTTP, administration."""

from __future__ import annotations

import asyncio

import msgspec

from hubbub.domain.documents.changes import (
    MERGE_PATCH,
    PATCH,
    ChangeOptions,
    ChangeOutcome,
    DocumentAnswer,
    DocumentQuery,
)
from hubbub.domain.documents.requests import check_kind
from hubbub.domain.errors import Internal, NotPermitted
from hubbub.domain.messages import Attributes
from hubbub.domain.names import check_name
from hubbub.domain.permissions import Identity, may_subscribe
from hubbub.domain.requests import Producer, PublishItem
from hubbub.engine.hub import Hub
from hubbub.engine.publishing import Publisher
from hubbub.ports.bus import Bus, PublishOutcome, PublishReply

_KINDS = {"patch": PATCH, "merge": MERGE_PATCH, "delete": PATCH}


class Changed(msgspec.Struct, frozen=True):
    """`duplicate`: it was there already, and led to this version then."""

    outcome: ChangeOutcome
    duplicate: bool = False


class Documents:
    """Reading takes permission to subscribe, changing to publish."""

    def __init__(self, bus: Bus, publisher: Publisher) -> None:
        self._bus = bus
        self._publisher = publisher

    async def get(self, hub: Hub, identity: Identity, query: DocumentQuery) -> DocumentAnswer:
        """Raises `NotPermitted`, `WrongChannelKind`, `NotFound`, `InvalidPatch`, `HistoryGone`."""
        channel = check_name(query.channel, "channel")
        if not may_subscribe(identity, channel, hub.rules_for(channel), hub.user_channels):
            raise NotPermitted(f"no permission to read {channel!r}")
        check_kind(channel)
        await hub.consent(identity, channel)
        return await self._bus.document(query)

    def change(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        patch: bytes,
        options: ChangeOptions,
        reply: PublishReply | None,
        producer: Producer | None = None,
        technology: str | None = None,
        session: str | None = None,
    ) -> None:
        """Have the owner change the document. Raises the errors of `Publisher.check`, in which case
        `reply` is not called; the owner's refusals come with it."""
        item = PublishItem(
            check_name(channel, "channel"),
            "DocumentChange",
            patch,
            _KINDS[options.kind],
            store=True,
            producer=producer,
            attributes=Attributes(change=options),
        )
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
        """Change the document and wait until that is on disk. Raises what kept it from it."""
        done: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if not done.done():  # else whoever waited is gone
                done.set_result(outcome)

        self.change(hub, identity, channel, patch, options, conclude, producer, technology)
        return changed(await done)


def changed(outcome: PublishOutcome) -> Changed:
    """Raises what kept it from taking effect."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.change is None:
        raise Internal("the owner of the document gave no answer")
    return Changed(outcome.change, outcome.duplicate)
