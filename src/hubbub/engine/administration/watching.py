"""Sessions of open dashboards. They belong to the internal hub `*`, a name that tenants cannot use.

Each of its channels is computed once for all watchers, and only while somebody watches it. There is
no history: a new session gets the next tick."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from hubbub.domain import notices, requests
from hubbub.domain.errors import BadRequest, HubbubError, NotPermitted, RateLimited, TooManyChannels
from hubbub.domain.limits import TokenBucket
from hubbub.domain.messages import JSON, Message
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.requests import Request
from hubbub.domain.shares import FairShare
from hubbub.engine.access.registry import AccessRegistry, Subscriber
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.administration.viewers import for_viewers
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection

MOST_CHANNELS = 50
"""Maximum number of channels per session."""
MOST_WATCHERS = 400
"""Maximum number of sessions on one node, shared fairly between hubs; those that watch all hubs
count as one."""
REQUESTS_PER_SECOND = 20
REQUESTS_AT_ONCE = 100
KINDS = ("counters", "topology", "lag", "alarms", "audit")
_EPOCH = "live"


class Watcher(Subscriber):
    """A session of a dashboard. It sees its hub, or with `*` all hubs."""

    def __init__(
        self, board: Board, connection: Connection, hub: str, identity: Identity, clock: Clock
    ) -> None:
        self.id = f"s{randomness.token_urlsafe(12)}"
        self.hub = hub
        self.identity = identity
        self.connection = connection
        self.clock = clock
        self.last_seen = clock.monotonic()
        self.reason: str | None = None
        self.busy = 0
        self.channels: dict[str, None] = {}
        self._board = board
        self._bucket = TokenBucket(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE, self.last_seen)

    # -- what the registry of subscribers asks --------------------------------------------------

    @property
    def reader(self) -> Reader:
        return Reader(self.identity)

    def followed(self) -> Collection[str]:
        return ()  # those of `*`, about which no tenant's rules decide

    def lose(self, channels: Sequence[str], error: NotPermitted) -> None:
        """Does nothing: it follows no channel of a tenant."""

    def end(self, error: HubbubError) -> None:
        self._board.leave(self)
        self.connection.disconnect(error)

    # -- what the connection asks ---------------------------------------------------------------

    @property
    def restorable(self) -> bool:
        return False

    def hear(self) -> None:
        self.last_seen = self.clock.monotonic()

    def receive(self, received: Iterator[Request], most: int) -> int:
        handled = 0
        while handled < most and self in self._board:
            request = next(received, None)
            if request is None:
                break
            handled += 1
            if not self._bucket.take(1, self.clock.monotonic()):
                self.end(RateLimited(f"more than {REQUESTS_PER_SECOND} requests per second", 1.0))
                break
            try:
                self._handle(request)
            except HubbubError as error:
                self.send(notices.Failed(error, getattr(request, "req_id", 0)))
        return handled

    def disconnected(self, keep_state: bool = True) -> None:
        self._board.leave(self)

    def lost(self) -> None:
        self._board.leave(self)

    def cut_off(self, unread_bytes: int) -> None:
        self._board.leave(self)

    # -- requests -------------------------------------------------------------------------------

    def _handle(self, request: Request) -> None:
        if isinstance(request, requests.Subscribe):
            self._subscribe(request)
        elif isinstance(request, requests.Unsubscribe):
            for channel in request.channels:
                self._board.forget(self, channel)
            self.send(notices.Unsubscribed(request.channels, req_id=request.req_id))
        elif isinstance(request, requests.Ping):
            self.send(notices.Pong(request.req_id))
        elif isinstance(request, requests.Close):
            self._board.leave(self)
            self.connection.close()
        elif isinstance(request, requests.UndecodableRequest):
            raise request.error
        elif not isinstance(request, requests.Pong):
            raise BadRequest("the dashboard's socket takes Subscribe, Unsubscribe, Ping and Close")

    def _subscribe(self, request: requests.Subscribe) -> None:
        done: list[notices.SubscribedChannel] = []
        failures: list[notices.ChannelFailure] = []
        for wanted in request.channels:
            try:
                self._check(wanted.channel)
            except HubbubError as error:
                failures.append(notices.ChannelFailure(wanted.channel, error))
            else:
                self._board.follow(self, wanted.channel)
                done.append(notices.SubscribedChannel(wanted.channel, _EPOCH, 0))
        self.send(notices.Subscribed(tuple(done), tuple(failures), request.req_id))

    def _check(self, channel: str) -> None:
        """Raises `BadRequest`, `NotPermitted`, `TooManyChannels`."""
        kind, _, hub = channel.partition(":")
        if kind not in KINDS or (kind == "lag" and not hub):
            raise BadRequest(
                f"there is no channel {channel[:80]!r} to watch; there are counters, topology, "
                "alarms and audit, each also with ':' and a hub, and lag with ':' and a hub"
            )
        if self.hub not in (ANY_HUB, hub):
            raise NotPermitted(f"this session watches the hub {self.hub!r} only")
        if len(self.channels) >= MOST_CHANNELS and channel not in self.channels:
            raise TooManyChannels(f"a session watches at most {MOST_CHANNELS} channels")

    def send(self, *said: notices.Notice) -> None:
        encoder = self.connection.encoder
        self.connection.send(encoder.pack([encoder.encode(each) for each in said]))


class Board:
    """The dashboard sessions of this node, by channel."""

    def __init__(self, clock: Clock, tokens: Tokens, access: AccessRegistry) -> None:
        self._clock = clock
        self._tokens = tokens
        self._access = access
        self._watchers: dict[Watcher, None] = {}
        self._share = FairShare(MOST_WATCHERS)
        self._of_channel: dict[str, dict[Watcher, None]] = {}
        self._last: dict[str, bytes] = {}
        self._number = 0
        self.wanted: Callable[[], None] = lambda: None
        """Called when a session connects, and when a channel gets its first watcher."""

    def enter(self, connection: Connection, hub: str, identity: Identity) -> Watcher:
        """Adds and greets a session. Raises `TooManyChannels` if there are too many."""
        self.review()
        if not self._share.may_take(hub):
            raise TooManyChannels(f"too many sessions watch hub {hub!r} at this node; close some")
        self._share.take(hub)
        watcher = Watcher(self, connection, hub, identity, self._clock)
        self._watchers[watcher] = None
        if hub != ANY_HUB:  # whose settings and revocations decide
            self._access.add(hub, watcher)
        watcher.send(
            notices.SessionInfo(
                hub_id=ANY_HUB,
                session_id=watcher.id,
                hub_allow_anonymous=False,
                hub_allow_user_channel=False,
                default_public=False,
                authenticated=True,
                user_id=identity.user_id,
                ping_interval_seconds=0,
                expires_at=identity.expires_at,
                max_channels=MOST_CHANNELS,
            )
        )
        self.wanted()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Idempotent."""
        if self._watchers.pop(watcher, self) is self:
            return
        self._share.give_back(watcher.hub)
        self._access.remove(watcher.hub, watcher)
        for channel in list(watcher.channels):
            self.forget(watcher, channel)

    def __contains__(self, watcher: Watcher) -> bool:
        """Whether the session is open."""
        return watcher in self._watchers

    def follow(self, watcher: Watcher, channel: str) -> None:
        watcher.channels[channel] = None
        self._of_channel.setdefault(channel, {})[watcher] = None
        self.wanted()

    def forget(self, watcher: Watcher, channel: str) -> None:
        watcher.channels.pop(channel, None)
        watchers = self._of_channel.get(channel)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._of_channel[channel]
                self._last.pop(channel, None)

    @property
    def occupied(self) -> bool:
        """Whether any session is connected."""
        return bool(self._watchers)

    @property
    def channels(self) -> list[str]:
        """The channels with sessions."""
        return list(self._of_channel)

    def review(self) -> None:
        """Ends the sessions whose tokens are no longer valid."""
        for watcher in list(self._watchers):
            try:
                self._tokens.check(watcher.identity, watcher.hub)
            except HubbubError as error:
                watcher.end(error)

    def say(self, channel: str, event: str, payload: bytes) -> None:
        """Sends to all watchers of the channel; encoded once per encoding, and once more for
        viewers."""
        watchers = self._of_channel.get(channel)
        if not watchers:
            return
        self._number += 1
        message = Message(
            id=f"{self._number:x}",
            hub=ANY_HUB,
            channel=channel,
            event=event,
            payload=payload,
            content_type=JSON,
            published_at=int(self._clock.now() * 1000),
        )
        packed: dict[object, bytes] = {}
        for watcher in list(watchers):
            encoder = watcher.connection.encoder
            viewed = watcher.identity.level is Level.VIEWER
            key = encoder, viewed
            if key not in packed:
                said = notices.MessageDelivery(_viewed(message) if viewed else message)
                packed[key] = encoder.pack([encoder.encode(said)])
            watcher.connection.send(packed[key])


def _viewed(message: Message) -> Message:
    shown = for_viewers(msgspec.json.decode(message.payload))
    return msgspec.structs.replace(message, payload=msgspec.json.encode(shown))
