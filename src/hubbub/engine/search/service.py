"""Search at the node: which channels, which hits, in which order.

Channels that the asker may not read are left out before the index is asked. Neither hits nor the
time that a search takes depend on what they hold."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, Timeout, TooManyChannels
from hubbub.domain.filters.filters import NO_FILTERS, Filters, filter_of_request
from hubbub.domain.history import PageRoom, size_of
from hubbub.domain.messages import ERASED_CONTENT_TYPE, ERASED_PAYLOAD, Message
from hubbub.domain.names import check_name
from hubbub.domain.patterns import PatternSet, check_pattern, is_pattern, literal_start
from hubbub.domain.permissions import Identity, may_subscribe, refusal
from hubbub.domain.search import (
    DEFAULT_HITS,
    MAX_HITS,
    RANK,
    TIME,
    CompleteIndex,
    Phrases,
    Search,
    SearchHit,
    SearchPage,
    SearchPlace,
    is_searched,
    phrases_of,
)
from hubbub.engine.delivery.screening import Screening
from hubbub.engine.hub import Hub
from hubbub.fair_slots import FairPlaces
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.ports.storage.search import IndexedChannel, SerialRange, TextHit
from hubbub.tasks import gather_some

RANKED = 300
"""So many of the newest hits are ranked among themselves."""
MAX_CHANNELS = 10_000
"""The most channels that one search looks through."""
MAX_SECONDS = 3.0
_AT_ONCE = 4
_WAITING = 200
"""Searches on this node, in fair shares of the hubs."""
_COMPLETED = 50
"""The most channels whose index a search completes first."""
_PAGE = 500
_SPANS = 100
"""Spans in one question to the store."""
_READ_AT_ONCE = 10
_MAX_CURSOR = 4096
_END = 2**62
"""Later than any message."""


class SearchService:
    def __init__(self, store: Store, bus: Bus, clock: Clock) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._places = FairPlaces(_AT_ONCE, _WAITING, "searches")

    async def page(
        self, hub: Hub, identity: Identity, request: Search, filters: Filters = NO_FILTERS
    ) -> SearchPage:
        """To be encoded at once. Raises `NotPermitted`, `InvalidName`, `InvalidFilter`,
        `BadRequest`, `TooManyChannels`, `Overloaded` and `Timeout`."""
        phrases = phrases_of(request.query)
        if request.order not in ("", RANK, TIME):
            raise BadRequest(f"order is {request.order[:20]!r}; give {RANK} or {TIME}")
        if request.limit < 0:
            raise BadRequest(f"limit is {request.limit}; give a number from 1 on, or none")
        if request.filter is not None:
            filters = filters.beside(filter_of_request(request.filter))
        place = SearchPlace(_END, "", 0) if request.cursor is None else _read_cursor(request.cursor)
        async with self._places.slot(hub.name):
            channels = await self._channels(hub, identity, request.channel)
            behind = await self._complete_some(hub, channels)
            found = _Search(self._store, self._clock, hub, channels, phrases)
            page = await found.page(request, place, filters)
        await hub.take_turn(sum(len(hit.message.payload) for hit in page.hits))
        return msgspec.structs.replace(page, behind=behind, req_id=request.req_id)

    async def _channels(
        self, hub: Hub, identity: Identity, wanted: str | None
    ) -> list[IndexedChannel]:
        """Indexed channels that the asker may read. A channel with a hook is searched only by its
        name, since the hook would be asked about each."""
        named = wanted if wanted is not None and not is_pattern(wanted) else None
        pattern = None
        if named is not None:
            rules = hub.rules_for(check_name(named, "channel"))
            if not may_subscribe(identity, named, rules, hub.user_channels):
                raise refusal(identity, "search", named, rules)
            await hub.consent(identity, named)
        elif wanted is not None:
            pattern = PatternSet((check_pattern(wanted),))
        prefix = named or (literal_start(wanted) if wanted is not None else "")
        found: list[IndexedChannel] = []
        async for each in self._indexed(hub, prefix):
            if named is not None and each.name != named:
                break
            if pattern is not None and not pattern.matches(each.name):
                continue
            if self._may_search(hub, identity, each, named):
                found.append(each)
            if len(found) > MAX_CHANNELS:
                raise TooManyChannels(
                    f"you may read more than {MAX_CHANNELS} channels that are searched; name a"
                    " channel, or a pattern that fewer of them match"
                )
        return found

    async def _indexed(self, hub: Hub, prefix: str) -> AsyncIterator[IndexedChannel]:
        """Channels whose names begin like this, in the order of their names."""
        begin = prefix
        while True:
            page = await self._store.read_indexed_channels(hub.name, begin, _PAGE)
            for each in page:
                if not each.name.startswith(prefix):
                    return
                yield each
            if len(page) < _PAGE:
                return
            begin = f"{page[-1].name}\x01"
            await hub.slices.next()

    @staticmethod
    def _may_search(
        hub: Hub, identity: Identity, channel: IndexedChannel, named: str | None
    ) -> bool:
        rules = hub.rules_for(channel.name)
        asks_hook = bool(rules.subscribe_hook) and not identity.trusted and named is None
        return (
            channel.first <= channel.head
            and is_searched(channel.name, rules)
            and not asks_hook
            and may_subscribe(identity, channel.name, rules, hub.user_channels)
        )

    async def _complete_some(self, hub: Hub, channels: list[IndexedChannel]) -> int:
        """Has the index of some channels completed that is not; returns how many are not."""
        incomplete = [each for each in channels if not each.complete]
        asked = (self._complete(hub, each.name) for each in incomplete[:_COMPLETED])
        done = sum(await gather_some(_COMPLETED, asked))
        return len(incomplete) - done

    async def _complete(self, hub: Hub, channel: str) -> bool:
        try:
            return await self._bus.ask(CompleteIndex(hub.name, channel))
        except HubbubError:
            return False  # its owner goes on, or has logged why not


class _Search:
    """One search, over channels that the asker may read."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hub: Hub,
        channels: Sequence[IndexedChannel],
        phrases: Phrases,
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._phrases = phrases
        self._channels = {each.id: each for each in channels}
        self._deadline = clock.monotonic() + MAX_SECONDS

    async def page(self, request: Search, place: SearchPlace, filters: Filters) -> SearchPage:
        limit = min(request.limit or DEFAULT_HITS, MAX_HITS)
        ranked = request.order != TIME
        filtered = request.filter is not None or filters is not NO_FILTERS
        most = RANKED if ranked or filtered else limit + 1
        spans = await self._spans(place, request.since, request.until)
        block = await self._newest(spans, most, ranked)
        if ranked and block and place.at == _END:
            place = SearchPlace(block[0].at, "", 0)  # later messages would shift the next page
        order = sorted(block, key=lambda hit: -hit.score) if ranked else block
        hits, examined = await self._passing(order[place.skipped :], limit, filters)
        examined += place.skipped
        cursor = None
        if ranked and examined < len(block):
            cursor = msgspec.structs.replace(place, skipped=examined)
        elif examined and (examined < len(block) or len(block) == most):
            cursor = self._place_of(block[examined - 1])
        return SearchPage(tuple(hits), None if cursor is None else _write_cursor(cursor))

    def _place_of(self, hit: TextHit) -> SearchPlace:
        return SearchPlace(hit.at, self._channels[hit.channel_id].name, hit.serial)

    # -- the index ------------------------------------------------------------------------------

    async def _spans(
        self, place: SearchPlace, since: int | None, until: int | None
    ) -> list[SerialRange]:
        """Where hits can be, the channels with the newest messages first."""
        latest = _END if until is None else until
        highs = {
            each: min(latest, place.at if each.name > place.channel else place.at - 1)
            for each in self._channels.values()
            if since is None or each.last_at >= since
        }
        ends = {each: each.head for each in highs}
        starts = {each: each.first for each in highs}
        # Behind a hit of the channel itself, its serial says where to go on.
        later = [(each, time + 1) for each, time in highs.items() if each.last_at > time]
        for (each, _), serial in zip(later, await self._serials_at(later), strict=True):
            ends[each] = serial - 1
        for each in highs:
            if each.name == place.channel and place.at <= latest:
                ends[each] = min(each.head, place.serial - 1)
        if since is not None:
            earlier = [(each, since) for each in highs]
            for (each, _), serial in zip(earlier, await self._serials_at(earlier), strict=True):
                starts[each] = serial
        found = sorted(highs, key=lambda each: -each.last_at)
        return [
            SerialRange(each.id, starts[each], ends[each])
            for each in found
            if starts[each] <= ends[each]
        ]

    async def _serials_at(self, questions: list[tuple[IndexedChannel, int]]) -> list[int]:
        serials: list[int] = []
        for at in range(0, len(questions), _SPANS):
            self._check_time()
            part = questions[at : at + _SPANS]
            serials += await self._store.first_serials_at(self._hub.name, part)
        return serials

    async def _newest(self, spans: list[SerialRange], most: int, ranked: bool) -> list[TextHit]:
        """The newest hits, the newest first. Newer parts of channels are searched before older
        ones, so that the search may end early."""
        hits: list[TextHit] = []
        newest = {each.id: each.last_at for each in self._channels.values()}
        while spans:
            self._check_time()
            asked, spans = spans[:_SPANS], spans[_SPANS:]
            found = await self._store.find_texts(self._hub.name, asked, self._phrases, most, ranked)
            spans += found.rest
            for hit in found.hits:
                newest[hit.channel_id] = min(newest[hit.channel_id], hit.at)
            hits = sorted((*hits, *found.hits), key=self._order)[:most]
            if len(hits) == most:
                spans = [each for each in spans if newest[each.channel_id] >= hits[-1].at]
        return hits

    def _order(self, hit: TextHit) -> tuple[int, str, int]:
        return -hit.at, self._channels[hit.channel_id].name, -hit.serial

    def _check_time(self) -> None:
        if self._clock.monotonic() > self._deadline:
            raise Timeout(
                f"the search took longer than {MAX_SECONDS:g} seconds; name a channel, a pattern or"
                " times, or give a rarer word"
            )

    # -- the messages ---------------------------------------------------------------------------

    async def _passing(
        self, order: Sequence[TextHit], limit: int, filters: Filters
    ) -> tuple[list[SearchHit], int]:
        """The first messages that pass, and how many hits were examined for them."""
        now = int(self._clock.now() * 1000)
        room, hits, examined = PageRoom(limit), list[SearchHit](), 0
        for at in range(0, len(order), _READ_AT_ONCE):
            self._check_time()
            part = order[at : at + _READ_AT_ONCE]
            messages = await self._read(part)
            for hit in part:
                message = messages.get((hit.channel_id, hit.serial))
                if message is not None and await self._passes(message, filters, now):
                    if not room.take(size_of(message)):
                        return hits, examined
                    hits.append(SearchHit(message, hit.score))
                examined += 1
                if len(hits) == limit:
                    return hits, examined
        return hits, examined

    async def _passes(self, message: Message, filters: Filters, now: int) -> bool:
        if message.payload == ERASED_PAYLOAD and message.content_type == ERASED_CONTENT_TYPE:
            return False  # a node of the version before has erased it, and left its words
        screen = filters.for_channel(message.channel)
        return screen is None or await Screening(screen, now, self._hub.slices).passes(message)

    async def _read(self, hits: Sequence[TextHit]) -> dict[tuple[int, int], Message]:
        wanted: dict[int, set[int]] = {}
        for hit in hits:
            wanted.setdefault(hit.channel_id, set()).add(hit.serial)
        found: dict[tuple[int, int], Message] = {}
        for channel_id, serials in wanted.items():
            name = self._channels[channel_id].name
            while serials:
                page = await self._store.read_messages(self._hub.name, name, sorted(serials))
                read = {message.serial: message for message in page.messages}
                found |= {(channel_id, serial): each for serial, each in read.items()}
                serials = serials - read.keys() if page.more and read else set()
        return found


def _write_cursor(place: SearchPlace) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(place)).rstrip(b"=").decode()


def _read_cursor(text: str) -> SearchPlace:
    """Raises `BadRequest`."""
    try:
        if len(text) > _MAX_CURSOR:
            raise ValueError("too long")
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        place = msgspec.msgpack.decode(urlsafe_b64decode(padded), type=SearchPlace)
    except (ValueError, msgspec.MsgspecError):
        raise BadRequest(
            f"cursor is {text[:40]!r}, which no search returned; begin without it"
        ) from None
    if not 0 <= place.at <= _END or not 0 <= place.serial <= _END or place.skipped < 0:
        raise BadRequest(f"cursor is {text[:40]!r}, which no search returned; begin without it")
    return place
