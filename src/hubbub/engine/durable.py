"""Durable subscriptions at the owner of a channel: hand messages out, wait, take acknowledgements.

What a subscription has done is on disk before anyone is told so. What it is handed out is read from
the store, or from the channel's last messages, which stay in memory while somebody asks for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hubbub.domain.cursors import Cursor, CursorRecord, Pick
from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    NotSubscribed,
    QuotaExceeded,
    StaleOwner,
    TopicNotFound,
)
from hubbub.domain.messages import Message
from hubbub.domain.topics import (
    MAX_BATCH,
    Acknowledge,
    Article,
    GetMessages,
    SubscribeTopic,
    SubscriptionInfo,
    SubscriptionKey,
    SubscriptionOptions,
)
from hubbub.engine.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.dead_letters import dead_letter
from hubbub.engine.receipts import Receipts
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.store import ChannelHead, Store
from hubbub.ports.store import Cursor as SavedCursor

logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 10_000
"""Of one channel."""
_TAIL_MESSAGES = 1000
_TAIL_BYTES = 512 * 1024
_READ_AHEAD = 500
"""Messages that are read from the store at once, for the next who ask."""

Publish = Callable[[Message, PublishReply], None]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CursorRecord)


class Place:
    """A durable subscription: its cursor, who waits for it, and what of it is on disk."""

    __slots__ = ("burying", "cursor", "gone", "key", "lock", "saved", "version", "waiters")

    def __init__(self, key: SubscriptionKey, cursor: Cursor) -> None:
        self.key = key
        self.cursor = cursor
        self.waiters: list[asyncio.Future[None]] = []
        self.lock = asyncio.Lock()
        self.version = 0
        self.saved = 0
        self.burying = False
        self.gone = False

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Cursors:
    """The durable subscriptions of one channel, and its newest messages."""

    __slots__ = ("_tail_bytes", "lock", "page", "places", "ready", "tail")

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], Place] = {}
        self.ready = asyncio.Event()
        self.lock = asyncio.Lock()
        self.tail: deque[Message] = deque()
        self.page: Sequence[Message] = ()
        """What was read from the store last, without gaps."""
        self._tail_bytes = 0

    @property
    def idle(self) -> bool:
        """Nobody waits and nobody holds anything, so that it can be forgotten."""
        return not any(
            place.waiters or place.cursor.leases or place.burying for place in self.places.values()
        )

    def remember(self, message: Message) -> None:
        tail = self.tail
        if tail and tail[-1].serial != message.serial - 1:
            tail.clear()
            self._tail_bytes = 0
        tail.append(message)
        self._tail_bytes += len(message.payload)
        while len(tail) > _TAIL_MESSAGES or (self._tail_bytes > _TAIL_BYTES and len(tail) > 1):
            self._tail_bytes -= len(tail.popleft().payload)


class DurableSubscriptions:
    """Serves all channels of one owner. Channels are loaded and store when they come here."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        terms: Mapping[int, int],
        publish: Publish,
        receipts: Receipts,
        counters: defaultdict[str, TopicCounters],
    ) -> None:
        """`publish` takes dead letters to wherever their channel is owned."""
        self._store = store
        self._clock = clock
        self._terms = terms
        self._publish = publish
        self._receipts = receipts
        self._counters = counters
        self._channels: dict[Channel, None] = {}
        """Those whose subscriptions are in memory."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def forget(self, channel: Channel) -> None:
        """The owner lets the channel go, or its hub is gone."""
        self._channels.pop(channel, None)
        cursors, channel.cursors = channel.cursors, None
        for place in cursors.places.values() if cursors is not None else ():
            place.gone = True
            place.wake()

    async def settle(self) -> None:
        """Send away who waits, and let what was begun end."""
        self._closing = True
        for channel in self._channels:
            for place in channel.cursors.places.values() if channel.cursors else ():
                place.wake()
        while self._tasks:
            await asyncio.gather(*self._tasks)

    # -- requests -------------------------------------------------------------------------------

    async def subscribe(self, channel: Channel, request: SubscribeTopic) -> SubscriptionInfo:
        cursors = await self._cursors(channel)
        key = request.key
        async with cursors.lock:
            place = cursors.places.get((key.owner, key.name))
            if place is not None:
                if request.options is not None and request.options != place.cursor.options:
                    self._reconfigure(place, request.options)
                    await self._save(channel, place)
                return _info(channel, place)
            if len(cursors.places) >= MAX_SUBSCRIPTIONS:
                raise QuotaExceeded(
                    f"channel {channel.name!r} has {MAX_SUBSCRIPTIONS} durable subscriptions, as "
                    "many as it may; remove one that nobody needs"
                )
            floor = await self._starting_floor(channel, request)
            record = CursorRecord(
                options=request.options or SubscriptionOptions(),
                epoch=channel.epoch,
                created_at=int(self._clock.now() * 1000),
                reserved=floor,
            )
            place = Place(key, Cursor(floor, record))
            await self._save(channel, place, changed=True)
            cursors.places[key.owner, key.name] = place
        return msgspec.structs.replace(_info(channel, place), new=True)

    async def unsubscribe(self, channel: Channel, key: SubscriptionKey) -> None:
        cursors = await self._cursors(channel)
        async with cursors.lock:
            place = self._find(channel, cursors, key)
            await self._store.delete_cursor(
                key.hub, key.channel, key.owner, key.name, *self._term(channel)
            )
            place.gone = True
            del cursors.places[key.owner, key.name]
            place.wake()

    async def describe(self, channel: Channel, key: SubscriptionKey) -> SubscriptionInfo:
        return _info(channel, await self._place(channel, key))

    async def describe_all(self, channel: Channel) -> list[SubscriptionInfo]:
        cursors = await self._cursors(channel)
        return [_info(channel, place) for place in cursors.places.values()]

    async def get(self, channel: Channel, request: GetMessages) -> tuple[Article, ...]:
        if not 1 <= request.limit <= MAX_BATCH:
            raise BadRequest(f"limit is {request.limit}; give a number from 1 to {MAX_BATCH}")
        place = await self._place(channel, request.key)
        if request.ack_up_to is not None:
            await self._acknowledge_up_to(channel, place, request)
        deadline = self._clock.monotonic() + request.wait_seconds
        while True:
            floor = place.cursor.floor
            articles = await self._take(channel, place, request)
            if not articles and place.cursor.floor > floor:
                continue  # what came next is gone; look behind it
            seconds = deadline - self._clock.monotonic()
            if articles or seconds <= 0 or self._closing or not await _woken(place, seconds):
                return articles
            if place.gone:
                raise _not_subscribed(request.key)

    async def acknowledge(self, channel: Channel, request: Acknowledge) -> int:
        place = await self._place(channel, request.key)
        cursor = place.cursor
        if (request.up_to is None) == (not request.serials):
            raise BadRequest("give either serials or upTo")
        if request.give_back:
            if cursor.give_back(_named(request, cursor), request.consumer):
                place.wake()
            return cursor.floor
        if request.up_to is not None:
            done = _done_up_to(cursor, request.up_to)
            fresh = cursor.acknowledge_up_to(request.up_to, channel.head, request.consumer)
        else:
            done = _runs(request.serials)
            fresh = cursor.acknowledge(request.serials, channel.head)
        self._counters[channel.hub].acknowledged += fresh
        await self._save(channel, place, changed=True)
        self._receipts.acknowledged(channel, request.key, done)
        if cursor.options.shared:
            place.wake()  # there is room for more
        return cursor.floor

    async def _acknowledge_up_to(
        self, channel: Channel, place: Place, request: GetMessages
    ) -> None:
        assert request.ack_up_to is not None
        done = _done_up_to(place.cursor, request.ack_up_to)
        if request.ack_up_to:  # 0: nothing yet
            self._counters[channel.hub].acknowledged += place.cursor.acknowledge_up_to(
                request.ack_up_to, channel.head, request.consumer
            )
        await self._save(channel, place, changed=bool(request.ack_up_to))
        self._receipts.acknowledged(channel, request.key, done)

    # -- handing out ----------------------------------------------------------------------------

    async def _take(
        self, channel: Channel, place: Place, request: GetMessages
    ) -> tuple[Article, ...]:
        cursor = place.cursor
        now = self._clock.monotonic()
        picks = cursor.pick(channel.head, request.limit, request.consumer, now, request.after)
        worn = cursor.worn_out(picks)
        if worn:
            cursor.put_back(worn)
            picks = [pick for pick in picks if pick.serial not in worn]
            self._bury(channel, place, worn[0])
        if not picks:
            return ()
        try:
            if cursor.must_reserve(picks):
                await self._save(channel, place, changed=True)
            found = await self._read(channel, [pick.serial for pick in picks])
        except BaseException:
            cursor.put_back(pick.serial for pick in picks)
            raise
        return self._hand_out(channel, place, picks, found)

    def _hand_out(
        self,
        channel: Channel,
        place: Place,
        picks: Sequence[Pick],
        found: Mapping[int, Message],
    ) -> tuple[Article, ...]:
        """What of the picked was read; the rest waits for the next time."""
        cursor = place.cursor
        cursor.put_back(pick.serial for pick in picks if pick.serial not in found)
        articles = tuple(
            Article(found[pick.serial], pick.deliveries, pick.redelivered)
            for pick in picks
            if pick.serial in found
        )
        counters = self._counters[channel.hub]
        counters.handed_out += len(articles)
        again = sum(each.deliveries > 1 for each in articles)
        counters.redelivered += again
        if again and cursor.options.max_deliveries:
            place.version += 1
            self._run(self._save(channel, place))
        self._receipts.received(channel, place.key, articles)
        return articles

    async def _read(self, channel: Channel, serials: Sequence[int]) -> dict[int, Message]:
        """Some of them, in any case the first ones, unless they are gone."""
        cursors = channel.cursors
        for known in (cursors.tail, cursors.page) if cursors is not None else ():
            if known and known[0].serial <= serials[0] <= known[-1].serial:
                first = known[0].serial
                return {s: known[s - first] for s in serials if s - first < len(known)}
        found: dict[int, Message] = {}
        for start, end in _runs(serials):
            size = max(end - start + 1, _READ_AHEAD)
            page = await self._store.read_after(channel.hub, channel.name, start - 1, size)
            found.update((m.serial, m) for m in page.messages if m.serial <= end)
            if page.head is not None and page.head.first > start:
                self.lost_before(channel, page.head.first)
            if cursors is not None:
                cursors.page = page.messages
            if len(page.messages) < end - start + 1:
                break
        return found

    def lost_before(self, channel: Channel, first: int) -> None:
        """The channel's messages begin here now; who had not got those before has missed them."""
        for place in channel.cursors.places.values() if channel.cursors else ():
            self._lose_before(channel, place, first)

    def _lose_before(self, channel: Channel, place: Place, first: int) -> None:
        missed = place.cursor.lose_before(first)
        if missed:
            self._counters[channel.hub].missed += missed
            place.version += 1
            self._run(self._save(channel, place))

    def delivered(self, channel: Channel, message: Message) -> None:
        """A message is on disk: whoever waits for one can have it."""
        cursors = channel.cursors
        if cursors is None or not cursors.places:
            return
        cursors.remember(message)
        for place in cursors.places.values():
            if place.waiters:
                place.wake()

    def waiting(self) -> dict[str, int]:
        """How many consumers wait for a message right now, by hub."""
        found: dict[str, int] = {}
        for channel in self._channels:
            places = channel.cursors.places.values() if channel.cursors else ()
            found[channel.hub] = found.get(channel.hub, 0) + sum(len(p.waiters) for p in places)
        return found

    def sweep(self) -> None:
        """Called every second: leases that have run out, dead letters that could not be put."""
        now = self._clock.monotonic()
        for channel in list(self._channels):
            if channel.cursors is None:
                del self._channels[channel]
                continue
            for place in channel.cursors.places.values():
                if place.cursor.leases and place.cursor.expire(now):
                    place.wake()
                if place.cursor.dying:
                    self._bury(channel, place, place.cursor.dying)

    # -- dead letters ---------------------------------------------------------------------------

    def _bury(self, channel: Channel, place: Place, serial: int) -> None:
        """One at a time: they are numbered, so that none is put twice."""
        if place.burying or place.gone:
            return
        place.burying = True
        self._run(self._bury_now(channel, place, place.cursor.dying or serial))

    async def _bury_now(self, channel: Channel, place: Place, serial: int) -> None:
        cursor = place.cursor
        try:
            cursor.dying = serial
            await self._save(channel, place, changed=True)
            message = (await self._read(channel, [serial])).get(serial)
            if message is not None:
                letter = dead_letter(place.key, cursor, message, int(self._clock.now() * 1000))
                await self._put(letter)
            cursor.dead_letters += 1
            self._counters[channel.hub].dead_letters += 1
            cursor.acknowledge([serial], channel.head)
            await self._save(channel, place, changed=True)
            self._receipts.dead(channel, place.key, serial, cursor.options.max_deliveries)
        except HubbubError as error:
            logger.warning(
                "message %d of channel %r could not be put to the dead letters: %s",
                serial,
                channel.name,
                error.message,
            )
        finally:
            place.burying = False
        place.wake()

    async def _put(self, letter: Message) -> None:
        answer: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
        self._publish(letter, answer.set_result)
        outcome = await answer
        if outcome.error is not None:
            raise outcome.error

    # -- memory and disk ------------------------------------------------------------------------

    async def _place(self, channel: Channel, key: SubscriptionKey) -> Place:
        return self._find(channel, await self._cursors(channel), key)

    @staticmethod
    def _find(channel: Channel, cursors: Cursors, key: SubscriptionKey) -> Place:
        place = cursors.places.get((key.owner, key.name))
        if place is not None:
            return place
        if not channel.head and not cursors.places:
            raise no_topic(key.hub, key.channel)
        raise _not_subscribed(key)

    async def _cursors(self, channel: Channel) -> Cursors:
        """The channel's subscriptions, read from the store at the first time."""
        cursors = channel.cursors
        if cursors is None:
            cursors = channel.cursors = Cursors()
            try:
                saved = await self._store.read_cursors(channel.hub, channel.name)
            except BaseException:
                channel.cursors = None
                cursors.ready.set()
                raise
            for each in saved:
                key = SubscriptionKey(each.hub, each.channel, each.owner, each.name)
                place = Place(key, cursor_of(each, channel.epoch))
                cursors.places[each.owner, each.name] = place
                self._lose_before(channel, place, channel.first)
            self._channels[channel] = None
            cursors.ready.set()
        elif not cursors.ready.is_set():
            await cursors.ready.wait()
            return await self._cursors(channel)
        return cursors

    async def _starting_floor(self, channel: Channel, request: SubscribeTopic) -> int:
        if request.start == "new":
            return channel.head
        if request.start == "first":
            head = await self._store.read_head(channel.hub, channel.name)
            return head.first - 1 if head is not None else 0
        if not isinstance(request.start, int) or not 0 <= request.start <= channel.head:
            raise BadRequest(
                f"start is {request.start!r}; give 'new', 'first', or a serial up to the "
                f"channel's newest, {channel.head}"
            )
        return request.start

    @staticmethod
    def _reconfigure(place: Place, options: SubscriptionOptions) -> None:
        """Leases begin anew under other options."""
        record = msgspec.structs.replace(place.cursor.record(), options=options)
        place.cursor = Cursor(place.cursor.floor, record)
        place.version += 1
        place.wake()

    async def _save(self, channel: Channel, place: Place, changed: bool = False) -> None:
        """Have the place on disk as it is now. Saves that meet are one."""
        if changed:
            place.version += 1
        target = place.version
        async with place.lock:
            if place.saved >= target or place.gone:
                return
            version, key, cursor = place.version, place.key, place.cursor
            state = _encoder.encode(cursor.record())
            saved = SavedCursor(key.hub, key.channel, key.owner, key.name, cursor.floor, state)
            try:
                await self._store.save_cursor(saved, *self._term(channel))
            except StaleOwner:
                channel.cursors = None  # another node knows better
                raise
            place.saved = version

    def _term(self, channel: Channel) -> tuple[int, int]:
        return channel.partition, self._terms.get(channel.partition, 0)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.warning("a durable subscription could not be saved: %s", error)


def cursor_of(saved: SavedCursor, epoch: str) -> Cursor:
    """A channel that had no message when it was subscribed to, or that was deleted since, counts
    in another epoch: everything in it is new to the subscription."""
    record = _decoder.decode(saved.state)
    if record.epoch != epoch:
        fresh = msgspec.structs.replace(
            record, epoch=epoch, reserved=0, done=(), counts={}, dying=0
        )
        return Cursor(0, fresh)
    return Cursor(saved.floor, record)


def _named(request: Acknowledge, cursor: Cursor) -> Iterable[int]:
    if request.up_to is None:
        return request.serials
    return [serial for serial in cursor.leases if serial <= request.up_to]


def _done_up_to(cursor: Cursor, up_to: int) -> Iterable[tuple[int, int]]:
    """What an acknowledgement up to there is about to add: all behind the floor, or of a shared
    subscription what is handed out."""
    if cursor.options.shared:
        return _runs([serial for serial in cursor.leases if serial <= up_to])
    return [(cursor.floor + 1, up_to)]


def _runs(serials: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Runs of numbers that follow one another, from rising or falling ones."""
    runs: list[tuple[int, int]] = []
    for serial in sorted(serials):
        if runs and runs[-1][1] == serial - 1:
            runs[-1] = (runs[-1][0], serial)
        else:
            runs.append((serial, serial))
    return runs


async def _woken(place: Place, seconds: float) -> bool:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    place.waiters.append(waiter)
    try:
        async with asyncio.timeout(seconds):
            await waiter
    except TimeoutError:
        return False
    finally:
        if waiter in place.waiters:
            place.waiters.remove(waiter)
    return True


def _not_subscribed(key: SubscriptionKey) -> NotSubscribed:
    return NotSubscribed(
        f"you have no durable subscription {key.name!r} to {key.channel!r}; subscribe first"
    )


def no_topic(hub: str, name: str) -> TopicNotFound:
    return TopicNotFound(f"there is no topic {name!r} in hub {hub!r}; put something first")


def describe_saved(saved: SavedCursor, head: ChannelHead | None) -> SubscriptionInfo:
    """A durable subscription whose channel is not in memory."""
    epoch = head.epoch if head is not None else ""
    cursor = cursor_of(saved, epoch)
    cursor.lose_before(head.first if head is not None else 1)
    key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
    return _describe(key, cursor, epoch, head.head if head is not None else 0)


def _info(channel: Channel, place: Place) -> SubscriptionInfo:
    return _describe(place.key, place.cursor, channel.epoch, channel.head)


def _describe(key: SubscriptionKey, cursor: Cursor, epoch: str, head: int) -> SubscriptionInfo:
    return SubscriptionInfo(
        key=key,
        options=cursor.options,
        epoch=epoch,
        floor=cursor.floor,
        head=head,
        lag=cursor.lag(head),
        handed_out=cursor.handed_out,
        created_at=cursor.created_at,
        redeliveries=cursor.redeliveries,
        dead_letters=cursor.dead_letters,
        missed=cursor.missed,
    )
