"""The owner of channels: accepts publishes, orders them, stores them if required, and sends them to
every node with subscribers.

Guarantees: - all subscribers of a channel see one order, and serials show any gap; - a stored
message is on disk before anyone sees it or its publisher is acknowledged; - a publish waits only
for its own channel."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from hubbub.domain.asking import NodeRequest, OwnerRequest, Sent
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.engine.channels.appends import Appender
from hubbub.engine.channels.attendance import ChannelPresence
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.delivering import Deliverer
from hubbub.engine.channels.erasing import Eraser
from hubbub.engine.channels.lifecycle import Channels
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.rooms import ChannelHandler, OwnerRoom
from hubbub.engine.channels.stored_bytes import ENVELOPE_BYTES
from hubbub.engine.channels.watching import Watching
from hubbub.engine.rooms import NodeHandler, merged, node_requests_of
from hubbub.ports.bus import (
    Attach,
    Attachment,
    FollowedState,
    HubChanged,
    Lane,
    PublishOutcome,
    PublishReply,
    Statement,
    UserErased,
)
from hubbub.ports.journal import Journal
from hubbub.ports.storage.messages import AppendAll, Deleted

_T = TypeVar("_T")
_Room = TypeVar("_Room", bound=OwnerRoom)


class ChannelOwner:
    """The owner of channels: serves all requests for the channels of this node's partitions. Runs
    on the event loop's thread."""

    def __init__(
        self,
        parts: OwnerParts,
        rooms: Sequence[OwnerRoom],
        journal: Journal,
        append: AppendAll,
    ) -> None:
        """`append` is the store's, or one that traces it. Rooms are told of what happens in their
        order."""
        store, clock, limits = parts.store, parts.clock, parts.limits
        self.terms = parts.terms
        self.stored_bytes = parts.stored_bytes
        self._clock = clock
        self._bus = parts.bus
        self._configuration_of = parts.configuration_of
        self._idle_seconds = limits.channel_idle_seconds
        self._open = parts.channels
        self._announcements = parts.announcements
        self._producers = parts.producers
        self._retained = RetainedMessages(store, clock, limits.retain_seconds, self.terms)
        eraser = Eraser(store, self.terms, self._retained, self._open, rooms)
        self.watching = Watching(self._open, parts.bus, clock)
        self.attendance = ChannelPresence(self._open, self._announcements, self.watching, clock)
        self.rooms: tuple[OwnerRoom, ...] = (
            self._producers,
            *rooms,
            self.watching,
            self.attendance,
            eraser,
        )
        self.channels = Channels(parts, self._retained, self.watching, rooms)
        self._appender = Appender(
            append,
            parts,
            self.channels,
            self._retained,
            Deliverer(parts.bus, self._announcements, clock, journal, rooms),
            rooms,
        )
        self._handlers = merged(room.owner_requests for room in self.rooms)
        self._channel_handlers = merged(room.channel_requests for room in self.rooms)

    def room(self, kind: type[_Room]) -> _Room:
        """The room of this type, for whoever looks into it from outside."""
        return next(room for room in self.rooms if isinstance(room, kind))

    def start(self, terms: Mapping[int, int], settle_seconds: float = 0.0) -> None:
        """Takes the partitions over, each under its term. If others owned them before, followers
        have a few seconds to report."""
        self.terms.update(terms)
        for room in self.rooms:
            room.owned(list(terms))
        self.watching.took_over()
        if settle_seconds:
            self.attendance.await_followers(list(terms), settle_seconds)

    async def release(self, partitions: Collection[int]) -> None:
        """Closes the channels of partitions that another node now owns, and waits until nothing is
        in progress. Unfinished requests fail with `StaleOwner`: they had no effect."""
        for room in self.rooms:
            await room.released(partitions)
        for partition in partitions:
            self.terms.pop(partition, None)
        self.channels.release(partitions)
        await self._appender.ended_so_far()

    async def stop_rooms(self) -> None:
        """Waits, within a bound, for the rooms' work in progress; they start nothing new."""
        for room in self.rooms:
            await room.stop()

    async def stop(self) -> None:
        """Waits until accepted messages are stored and acknowledged."""
        await self.channels.settle()
        await self._producers.settle()
        await self._appender.settle()
        await self._retained.settle()
        for room in self.rooms:
            await room.settle()

    # -- requests -------------------------------------------------------------------------------

    def publish(self, sent: Sent, reply: PublishReply | None) -> None:
        try:
            place = sent.hub, sent.channel
            channel = self._open.get(place) or self.channels.use(*place)
            self._appender.publish(channel, sent, reply)
        except HubbubError as error:
            if reply is not None:
                reply(PublishOutcome(error=error))

    def lane(self, hub: str, channel: str) -> Lane | None:
        """See `Bus.lane`."""
        found = self._open.get((hub, channel))
        if found is None or found.state is not State.READY or found.rules.store or found.queue:
            return None
        return partial(self._appender.publish_live, found)

    @property
    def kinds(self) -> set[type[OwnerRequest[Any]]]:
        """The types of requests that the owner answers."""
        return {Attach, *self._handlers, *self._channel_handlers}

    def ask(self, node: str, request: OwnerRequest[_T]) -> Coroutine[Any, Any, _T]:
        """Answers a node's request as the owner of its channel. Raises the handler's
        `HubbubError`."""
        serve = self._channel_handlers.get(type(request))
        if serve is not None:
            return self._serve(serve, request)
        answer: Any
        if isinstance(request, Attach):
            answer = self._attach(node, request)
        else:
            answer = self._handlers[type(request)](request)
        return answer  # type: ignore[no-any-return]  # the registration says so

    def tell(self, node: str, statement: Statement) -> None:
        self.attendance.heed(node, statement)

    async def _attach(self, node: str, request: Attach) -> Attachment:
        channel = self.channels.use(*request.place)
        self.attendance.attach(node, channel)
        await self.channels.ready(channel)
        if channel.kept:
            for room in self.rooms:
                await room.attaching(channel)
        return self.channels.attachment(channel)

    async def follow(
        self, node: str, followings: Sequence[FollowedState]
    ) -> list[Attachment | HubbubError]:
        """Handles all channels that a node follows at once; returns a response for each, in
        order."""
        answers: list[Attachment | HubbubError] = []
        channels: list[Channel | HubbubError] = []
        for following in followings:
            try:
                channel = self.channels.use(following.hub, following.channel)
            except HubbubError as error:
                channels.append(error)
                continue
            self.attendance.renew(node, channel, following)
            channels.append(channel)
        for each in channels:
            if isinstance(each, HubbubError):
                answers.append(each)
                continue
            try:
                if each.state < State.READY:
                    await self.channels.ready(each)
                answers.append(self.channels.attachment(each))
            except HubbubError as error:
                answers.append(error)
        return answers

    async def join(self) -> None:
        """Called before this node owns anything in a cluster with other nodes."""
        for room in self.rooms:
            await room.joining()

    @property
    def node_requests(self) -> Iterator[tuple[type[NodeRequest[Any]], NodeHandler]]:
        """Requests that the owner handles for its node, independent of a channel."""
        yield HubChanged, self._heed_change
        yield UserErased, self._forget_user
        yield from node_requests_of(self.rooms)

    async def _heed_change(self, _: str, changed: HubChanged) -> None:
        if changed.channel is None:
            self.hub_changed(changed.hub)
        else:
            self.channel_changed(changed.hub, changed.channel)

    async def _forget_user(self, _: str, erased: UserErased) -> None:
        """Raises `StoreUnavailable`."""
        for room in self.rooms:
            await room.user_erased(erased.hub, erased.user_id)

    async def expire(self) -> None:
        """Called periodically: the rooms delete what has expired. Raises `StoreUnavailable`."""
        for room in self.rooms:
            await room.expire()

    async def _serve(self, serve: ChannelHandler, request: OwnerRequest[_T]) -> _T:
        """Calls `serve` with the channel loaded; it stays open. If the channel moves to another
        node meanwhile, failures become `StaleOwner`."""
        channel = self.channels.use(*request.place)
        channel.hold()
        try:
            if channel.state is not State.READY:
                await self.channels.ready(channel)
            answer: _T = await serve(channel, request)
            return answer
        except HubbubError as error:
            if channel.closed_by is not None:
                raise channel.closed_by from error
            if isinstance(error, StaleOwner):
                self._bus.fenced(channel.partition)
            raise
        finally:
            channel.let_go(self._clock.monotonic())

    def waiting_writes(self) -> int:
        """The number of messages that wait for the store or are being stored."""
        return sum(len(channel.queue or ()) for channel in self._open.values())

    def reclaimed(self, hub: str, name: str, deleted: Deleted) -> None:
        """Retention deleted messages of a channel, which may be open or not."""
        size = deleted.stored_bytes + ENVELOPE_BYTES * deleted.messages
        self.stored_bytes.add(hub, -size)
        channel = self._open.get((hub, name))
        if channel is not None:
            channel.first = deleted.first
        for room in self.rooms:
            room.reclaimed(hub, name, deleted)

    # -- settings -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Applies changed rules to the hub's channels, now or when an append in progress has
        ended."""
        for room in self.rooms:
            room.hub_changed(hub)
        self.channels.hub_changed(hub)
        try:
            self._configuration_of(hub)
        except HubbubError:  # it was deleted, or the name stands for all hubs
            self.stored_bytes.forget(hub)

    async def prepare_suspension(self, hub: str) -> None:
        """The hub is about to be suspended: the rooms start no work for it."""
        for room in self.rooms:
            await room.hub_suspending(hub)

    async def suspend_hub(self, hub: str) -> None:
        """The hub is suspended and its writes are held: unloads all of its state, and waits until
        nothing is in progress. Unfinished requests have failed."""
        closing = [channel for channel in self._open.values() if channel.hub == hub]
        self.hub_changed(hub)
        await self._appender.ended_so_far()  # closes channels that waited for an append
        await self.channels.settle_so_far()
        await self._retained.settle_so_far()
        for room in self.rooms:
            await room.hub_suspended(hub)
        for channel in closing:
            await channel.let_go_by_all()

    async def resume_hub(self, hub: str) -> None:
        """The hub is back, with the store's current data. Raises `StoreUnavailable`."""
        self.hub_changed(hub)
        for room in self.rooms:
            await room.hub_resumed(hub)

    def channel_changed(self, hub: str, channel: str) -> None:
        """Like `hub_changed`, for a change of one channel's binding, and for its dead letters."""
        self.channels.channel_changed(hub, channel)
        for room in self.rooms:
            room.channel_changed(hub, channel)

    def sweep(self) -> None:
        """Called every second."""
        for room in self.rooms:
            room.sweep()
        self.channels.bound_histories()
        self.channels.close_idle(self._idle_seconds)

    def announce_news(self) -> None:
        """Called every second in a cluster, where followers may miss events."""
        self._announcements.news(self._open.values())
