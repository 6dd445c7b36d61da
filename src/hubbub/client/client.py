"""The client: the API for applications."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeVar, Unpack
from uuid import uuid4

from hubbub.client.commands import CommandHandler, CommandHandlers
from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.establishing import authenticate
from hubbub.client.connection.link import Codec, socket_url
from hubbub.client.connection.state import ClientState
from hubbub.client.connection.supervisor import CLOSE_SECONDS, Supervisor
from hubbub.client.documents import Document
from hubbub.client.events import Event, Gap, Member
from hubbub.client.filters import SUBSCRIPTION_FILTER, Where, condition_of, definition_of
from hubbub.client.listeners import Listeners
from hubbub.client.messages import (
    HistoryPage,
    Item,
    Message,
    PublishOptions,
    Receipt,
    SearchPage,
    ServiceAnswer,
    ThreadsPage,
    encode_data,
    from_history,
    from_search,
    from_threads,
    item_of,
    publish_item,
)
from hubbub.client.notifications import Notifications
from hubbub.client.options import Options
from hubbub.client.proof import Credentials, Proof, Token
from hubbub.client.subscription import OnGap, Subscription
from hubbub.client.topics.topics import Topics
from hubbub.client.tracker import ChannelToken, PatternTracker, Tracker
from hubbub.domain import notices
from hubbub.domain.commands.jids import Jid, hub_jid
from hubbub.domain.commands.objects import HCommand, write_command
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.names import takes_notifications, user_notifications
from hubbub.domain.notices import SessionInfo
from hubbub.domain.patterns import is_pattern
from hubbub.domain.requests import (
    Call,
    Enqueue,
    History,
    ListFilters,
    PresenceQuery,
    SendCommand,
    SetFilter,
    Threads,
    UnsetFilter,
)
from hubbub.domain.search import Search
from hubbub.domain.search import SearchPage as FoundPage
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1
from hubbub.tasks import TaskSet

logger = logging.getLogger("hubbub.client")

_CODECS: dict[str, Codec] = {"protobuf": PROTOBUF_V1, "json": JSON_V1}

E = TypeVar("E", bound=Event)
Since = int | datetime | tuple[str, int]
Handler = Callable[[Message], object | Awaitable[object]]


class Client:
    """A session in a hub that survives lost connections. Created by `connect`; use it with `async
    with`, or await it and call `close` in the end."""

    def __init__(self, url: str, hub: str, proof: Proof, options: Options) -> None:
        self.hub = hub
        self._listeners = Listeners()
        self._state = ClientState(proof, options, self._listeners.emit)
        self._supervisor = Supervisor(socket_url(url, hub), _CODECS[options.encoding], self._state)
        self.topics = Topics(self._supervisor, options.request_timeout)
        self._handlers = TaskSet()
        self._commands = CommandHandlers(self._supervisor)
        self._state.command_received = self._commands.receive

    def __await__(self) -> Generator[Any, None, Client]:
        return self._start().__await__()

    async def __aenter__(self) -> Client:
        return await self._start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _start(self) -> Client:
        await self._supervisor.start()
        return self

    async def close(self) -> None:
        """Sends queued messages, discards the session and ends all subscriptions."""
        await self._commands.settle(CLOSE_SECONDS)
        await self._supervisor.close()
        await self._commands.end()
        await self._handlers.end()

    @property
    def connected(self) -> bool:
        return self._supervisor.connected

    @property
    def options(self) -> Options:
        return self._state.options

    async def conversation(self) -> Conversation:
        """The current connection, or the next one: for outboxes. Raises `ClientClosed`."""
        return await self._supervisor.conversation()

    @property
    def session(self) -> SessionInfo | None:
        """Hub, session id, user and the hub's limits; None before the first connection."""
        return self._state.info

    @property
    def queued(self) -> int:
        """The number of publishes that wait to be sent."""
        return len(self._state.send_queue)

    def on(self, kind: type[E], callback: Callable[[E], None]) -> Callable[[], None]:
        """Registers a callback for events of a kind (see `hubbub.client.events`). Returns a
        function that removes it."""
        return self._listeners.add(kind, callback)

    # -- who I am -------------------------------------------------------------------------------

    async def authenticate(
        self, *, token: Token | None = None, credentials: Credentials | None = None
    ) -> notices.Authenticated:
        """Authenticates the session, possibly as another user, on the same connection. Later
        connections authenticate in the same way."""
        conversation = await self._supervisor.conversation()
        proof = Proof(token, credentials)
        answer = await authenticate(conversation, proof)
        self._state.proof = proof
        conversation.introduce()
        return answer

    # -- publishing -----------------------------------------------------------------------------

    async def publish(
        self,
        channel: str,
        data: object,
        event: str = "",
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """Publishes and waits for the receipt. Texts and bytes are sent unchanged, other data as
        JSON. The rarer envelope fields are options, too: `store=True, conversation_id="c",
        ttl=5000`.

        Without a connection the message waits for one. If the connection breaks between sending and
        the receipt, the message may or may not have arrived: `ConnectionLost`.
        """
        return await self._queue(item_of(channel, data, event, options))

    def publish_nowait(
        self,
        channel: str,
        data: object,
        event: str = "",
        **options: Unpack[PublishOptions],
    ) -> None:
        """Queues a message without a receipt. Raises `QueueFull`."""
        self._supervisor.check_open()
        item = item_of(channel, data, event, options)
        self._state.send_queue.put(publish_item(item, None), None)

    async def publish_many(self, items: Iterable[Item]) -> list[Receipt | HubbubError]:
        """Publishes all items, in order; returns a receipt or an error for each."""
        receipts = [self._queue(item) for item in items]
        results = await asyncio.gather(*receipts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, HubbubError):
                raise result
        return [result for result in results if isinstance(result, Receipt | HubbubError)]

    def _queue(self, item: Item) -> asyncio.Future[Receipt]:
        self._supervisor.check_open()
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._state.send_queue.put(publish_item(item, self._state.next_id()), receipt)
        return receipt

    # -- subscribing ----------------------------------------------------------------------------

    def subscribe(
        self,
        *channels: str,
        since: Since | None = None,
        where: Where | None = None,
        on_gap: OnGap = "mark",
        handler: Handler | None = None,
        presence: dict[str, Any] | None = None,
        token: ChannelToken | None = None,
    ) -> Subscription:
        """Follows channels, or all channels that match a pattern (`room:*`, `room:#`), including
        future ones. `since` requests messages published after a serial, an (epoch, serial), or a
        time; for a pattern only a time. `where` is a condition that messages must meet, evaluated
        by the hub: `payload.price lt 10`, or an object. Raises `InvalidFilter` if it is invalid.

        If messages are permanently missing, the next message carries a `gap`; with `on_gap="raise"`
        the iterator raises `MessagesLost` there and can be read on. A `handler` is called with each
        message, one after the other.

        `presence` is this session's presence data in the channels (`show` changes it). `token`
        permits the subscription if the session's own token does not; a function is called with the
        channel for each attempt and returns a token.
        """
        self._supervisor.check_open()
        if not channels:
            raise ValueError("name at least one channel")
        trackers = [_tracker(channel, since) for channel in dict.fromkeys(channels)]
        for tracker in trackers:
            tracker.presence, tracker.token = presence, token
        if where is not None:
            self._state.filtered = True
            for tracker in trackers:
                tracker.filter = definition_of(SUBSCRIPTION_FILTER, where, tracker.channel)
        subscription = Subscription(
            self._supervisor, trackers, on_gap, self._state.options.subscription_queue
        )
        self._state.registry.add(subscription)
        self._supervisor.subscribe_soon()
        if handler is not None:
            self._handlers.start(_hand_over(subscription, handler))
        return subscription

    # -- filters --------------------------------------------------------------------------------

    async def set_filter(
        self,
        name: str,
        where: Where | None = None,
        *,
        channel: str | None = None,
        template: Mapping[str, Any] | None = None,
        radius: float | None = None,
        relevant: bool | None = None,
    ) -> None:
        """From now on, messages of the channel (or of channels that match a pattern; without one,
        of all channels) must also pass this filter: its condition, its template, and its radius in
        metres around the template's location. A filter with the same name and channel is replaced.
        Later sessions of the client keep it. Raises `InvalidFilter` and `TooManyFilters`."""
        definition = definition_of(name, where, channel, template, radius, relevant)
        self._state.filtered = True
        await self._supervisor.call(SetFilter(definition), notices.FilterSet)
        self._state.filters[name, channel] = definition

    async def unset_filter(self, name: str, channel: str | None = None) -> None:
        """Removes a filter; without a channel, all filters of the name. Raises `NotFound`."""
        await self._supervisor.call(UnsetFilter(name, channel), notices.FilterUnset)
        for key in list(self._state.filters):
            if key[0] == name and channel in (None, key[1]):
                del self._state.filters[key]

    async def filters(self, channel: str | None = None) -> tuple[FilterDefinition, ...]:
        """The session's filters for a channel, or all, in the order of evaluation."""
        return (await self._supervisor.call(ListFilters(channel), notices.FilterList)).filters

    def document(self, channel: str) -> Document:
        """The document of a channel whose name begins with `doc:`."""
        return Document(self._supervisor, self.hub, channel, self.subscribe)

    def notifications(
        self, channel: str | None = None, *, since: int | None = None
    ) -> Notifications:
        """Follows a notification channel, or the inbox of a user by user id; without a name, the
        inbox of the session's user. `since` is a timestamp: notifications after it are returned
        first (0: all). Raises `BadRequest` if the session has no user."""
        if channel is None:
            info = self._state.info
            if info is None or info.user_id is None:
                raise BadRequest("nobody is authenticated: name the notification channel")
            channel = user_notifications(info.user_id)
        elif not takes_notifications(channel):
            channel = user_notifications(channel)
        return Notifications(self._supervisor, channel, self.subscribe, since)

    # -- asking ---------------------------------------------------------------------------------

    async def history(
        self,
        channel: str,
        *,
        after: int | datetime | None = None,
        before: int | datetime | None = None,
        epoch: str | None = None,
        limit: int = 0,
        conversation_id: str | None = None,
        where: Where | None = None,
    ) -> HistoryPage:
        """Messages after or before a serial or a time; without either, the newest: `limit`
        messages, fetched in as many pages as necessary, or one page. With `conversation_id`, only
        messages of that conversation, by serials. With `where`, only messages that meet a
        condition; the session's filters apply in any case."""
        wanted = None if where is None else {"condition": condition_of(where)}
        forwards = after is not None
        page = await self._page(channel, after, before, epoch, limit, conversation_id, wanted)
        while page.more and len(page.messages) < limit:
            bound = page.end(forwards)
            if bound is None:
                break
            following = await self._page(
                channel,
                bound if forwards else None,
                None if forwards else bound,
                page.epoch,
                limit - len(page.messages),
                conversation_id,
                wanted,
            )
            page = page.joined(following, forwards)
        return page

    async def _page(
        self,
        channel: str,
        after: int | datetime | None,
        before: int | datetime | None,
        epoch: str | None,
        limit: int,
        conversation_id: str | None,
        wanted: dict[str, Any] | None,
    ) -> HistoryPage:
        query = History(
            channel,
            after=_serial(after),
            before=_serial(before),
            after_time=_milliseconds(after),
            before_time=_milliseconds(before),
            epoch=epoch,
            limit=limit,
            conversation_id=conversation_id,
            filter=wanted,
        )
        page = await self._supervisor.call(query, notices.HistoryPage)
        return HistoryPage(
            channel,
            from_history(page.messages),
            page.epoch,
            page.head,
            page.recovered,
            page.more,
            page.next,
        )

    async def read_history(
        self,
        channel: str,
        *,
        after: int | datetime = 0,
        epoch: str | None = None,
        where: Where | None = None,
    ) -> AsyncIterator[Message]:
        """All messages after a serial or a time, oldest first, fetched page by page; with `where`,
        those that meet a condition. If some no longer exist, the message after them carries a
        `gap`."""
        while True:
            page = await self.history(channel, after=after, epoch=epoch, where=where)
            if not page.recovered and page.messages:
                reason = "the hub no longer has them"
                page.messages[0].gap = Gap(channel, reason, page.epoch, _serial(after) or 0)
            for message in page.messages:
                yield message
            end = page.end(forwards=True)
            if not page.more or end is None:
                return
            after, epoch = end, page.epoch

    async def threads(
        self, channel: str, *, status: str | None = None, after: int = 0, limit: int = 0
    ) -> ThreadsPage:
        """A page of the conversations of a channel that stores, in the order of their first
        messages: those whose first message has a serial greater than `after`; with `status`, only
        those with this status."""
        request = Threads(channel, after=after, limit=limit, status=status)
        return from_threads(await self._supervisor.call(request, notices.ThreadsPage))

    async def thread(
        self, channel: str, conversation_id: str, *, after: int = 0, limit: int = 0
    ) -> HistoryPage:
        """The messages of a conversation after a serial, oldest first: `limit` messages, or one
        page."""
        return await self.history(
            channel, after=after, limit=limit, conversation_id=conversation_id
        )

    async def search(
        self,
        query: str,
        *,
        channel: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        where: Where | None = None,
        order: Literal["rank", "time"] = "rank",
        limit: int = 0,
        cursor: str | None = None,
    ) -> SearchPage:
        """A page of the stored messages with all words of the query; words in quotation marks must
        follow each other. It covers all channels that the session may read and that are indexed, or
        the one or the pattern in `channel`. The best come first, or with `order="time"` the newest;
        `cursor` is that of the page before."""
        request = Search(
            query,
            channel=channel,
            since=_milliseconds(since),
            until=_milliseconds(until),
            filter=None if where is None else {"condition": condition_of(where)},
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return from_search(await self._supervisor.call(request, FoundPage))

    async def presence(self, channel: str) -> tuple[Member, ...]:
        """The sessions that are currently present in a channel."""
        return (await self._supervisor.call(PresenceQuery(channel), notices.Presence)).members

    async def show(self, channel: str, data: dict[str, Any]) -> tuple[Member, ...]:
        """Sets this session's presence data in a subscribed channel, also for later connections.
        Returns the present sessions. Raises `NotFound`."""
        request = PresenceQuery(channel, data=data)
        found = (await self._supervisor.call(request, notices.Presence)).members
        self._state.registry.show(channel, data)
        return found

    # -- services -------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        data: object = b"",
        *,
        timeout: float | None = None,
        content_type: str | None = None,
    ) -> ServiceAnswer:
        """Calls a method of a service and waits for its response, limited by `timeout` and the hub.
        If the connection breaks meanwhile, the call may or may not have been executed:
        `ConnectionLost`."""
        payload, content_type = encode_data(data, content_type)
        request = Call(method, payload, content_type, timeout or 0.0)
        more_seconds = self.options.request_timeout if timeout is None else timeout
        answer = await self._supervisor.ask_once(request, notices.CallAnswered, more_seconds)
        return ServiceAnswer(answer.payload, answer.content_type)

    async def submit(
        self, stream: str, data: object, event: str = "", *, content_type: str | None = None
    ) -> str:
        """Submits an event to a stream; returns its id once it is durable. Raises `ConnectionLost`
        if it is unknown whether the stream stored it."""
        request = Enqueue(stream, event, *encode_data(data, content_type))
        return (await self._supervisor.ask_once(request, notices.Enqueued)).message_id

    # -- commands -------------------------------------------------------------------------------

    async def command(
        self,
        cmd: str,
        params: object = None,
        *,
        entity: str | None = None,
        requester: str | None = None,
        transient: bool = True,
        timeout: float | None = None,
    ) -> Any:
        """Sends a command to the hub, or to the JID `entity`; returns the result, None if it is
        empty. `timeout` is in seconds. Raises `CommandRefused` with the status of any other result,
        and `ConnectionLost` if it is unknown whether the command was executed."""
        info = self._state.info
        user_id = info.user_id if info is not None else None
        command = HCommand(
            reqid=uuid4().hex,
            sender=str(Jid(user_id or "anonymous", self.hub)),
            entity=entity or str(hub_jid(self.hub)),
            cmd=cmd,
            params=params,
            transient=None if transient else False,
            requester=requester,
            timeout_ms=None if timeout is None else timeout * 1000,
        )
        more_seconds = self.options.request_timeout if timeout is None else timeout
        request = SendCommand(write_command(command))
        answer = await self._supervisor.ask_once(request, notices.CommandAnswered, more_seconds)
        status = Status(answer.result["status"])
        if status is not Status.OK:
            raise CommandRefused(status, str(answer.result.get("result", "")))
        return answer.result.get("result")

    def on_command(self, cmd: str, handler: CommandHandler) -> Callable[[], None]:
        """Handles the command `cmd` of other users: `handler` returns the result, or a coroutine
        for it; see `CommandHandler`. Commands are handled concurrently. The first session of the
        user that responds wins; after 5 seconds, or the sender's timeout, results are dropped.
        Returns a function that removes the handler. Raises `BadRequest` if `cmd` already has
        one."""
        return self._commands.add(cmd, handler)


def connect(
    url: str = "ws://127.0.0.1:8000",
    *,
    hub: str = "demo",
    token: Token | None = None,
    credentials: Credentials | None = None,
    options: Options | None = None,
) -> Client:
    """Creates a client of a hub on the server at `url`. `token` and `credentials` may be functions,
    also async ones, that create a new one for each connection."""
    return Client(url, hub, Proof(token, credentials), options or Options())


def _tracker(channel: str, since: Since | None) -> Tracker:
    if is_pattern(channel):
        if not isinstance(since, datetime | None):
            raise BadRequest(f"{channel!r} is a pattern: give a time, serials are of channels")
        return PatternTracker(channel, _milliseconds(since))
    if isinstance(since, datetime):
        return Tracker(channel, since_time=_milliseconds(since))
    if isinstance(since, tuple):
        epoch, serial = since
        return Tracker(channel, serial, epoch)
    return Tracker(channel, since)


def _serial(bound: int | datetime | None) -> int | None:
    return bound if isinstance(bound, int) else None


def _milliseconds(bound: int | datetime | None) -> int | None:
    return int(bound.timestamp() * 1000) if isinstance(bound, datetime) else None


async def _hand_over(subscription: Subscription, handler: Handler) -> None:
    """Calls the handler with each message. An exception is logged, and the next message follows."""
    async for message in subscription:
        try:
            answer = handler(message)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            logger.exception("the handler failed for a message of %r", message.channel)
