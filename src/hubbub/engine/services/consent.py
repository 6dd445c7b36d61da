"""Hooks: a service of the hub decides whether a client may subscribe or publish.

A hook is a method (`subscribeHook`, `publishHook` in the rules), called like any method: through a
route of the hub over HTTP or NATS, within the hub's limits. It receives a JSON object that
describes the request, and permits it with `{"allow": true}`. Without a response the request is
refused."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hubbub.domain.asking import Sent, envelope_of
from hubbub.domain.errors import (
    HookFailed,
    HubbubError,
    Internal,
    Limited,
    NotPermitted,
    Overloaded,
    ServiceRefused,
)
from hubbub.domain.messages import JSON, Message, is_json
from hubbub.domain.permissions import Identity, Level
from hubbub.engine.hub import Hub
from hubbub.engine.services.calls import Services
from hubbub.ports.bus import PublishReply
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 10_000
"""Maximum number of cached decisions per hub."""
MAX_WAITING = 1000
"""Maximum number of messages per hub that wait for their hook."""
MAX_CACHE_SECONDS = 3600.0
_REASON_CHARS = 200

Who = tuple[str | None, str | None]
"""The ids of a user and a session."""
NOBODY: Who = (None, None)
"""Neither user nor session: many callers over HTTP, for whom decisions are not cached."""

Action = Literal["subscribe", "publish"]
_Decisions = dict[tuple[str, ...], tuple[float, str | None]]
"""When a decision expires, and the reason of a refusal; None if it permits."""
HandOn = Callable[[Sent, PublishReply], None]
Refuse = Callable[[Sent, HubbubError, PublishReply], None]


class _Verdict(msgspec.Struct, frozen=True, rename="camel"):
    """The response of a hook."""

    allow: bool
    reason: Annotated[str, Meta(max_length=4096)] = ""
    cache_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long the decision is valid for the same user and channel."""


class Consent:
    """Calls hooks, and caches their decisions as long as their responses allow. Services and
    administrators are exempt."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services = services
        self._clock = clock
        self._known: dict[str, _Decisions] = {}
        """Cached decisions by hub."""

    async def subscribe(
        self, hub: Hub, identity: Identity, channel: str, session_id: str | None
    ) -> None:
        """Raises `NotPermitted`, `HookFailed` and `Limited`."""
        method = hub.rules_for(channel).subscribe_hook
        if method is not None and identity.level is Level.CLIENT:
            who = identity.user_id, session_id
            await self._decide(hub, method, who, {"action": "subscribe", "channel": channel})

    def hook_of(self, hub: Hub, identity: Identity, channel: str) -> str | None:
        """The method to call before this caller publishes to the channel; None if there is none."""
        return hub.rules_for(channel).publish_hook if identity.level is Level.CLIENT else None

    def remembers(self, hub: Hub, method: str, message: Message) -> bool:
        """Whether a cached decision permits the publish."""
        who = message.publisher, message.session
        known = self._remembered(hub.name, _key(method, "publish", message.channel, who))
        return known is not None and known[1] is None

    async def publish(self, hub: Hub, method: str, message: Message) -> None:
        """Raises `NotPermitted`, `HookFailed` and `Limited`."""
        question: dict[str, Any] = {
            "action": "publish",
            "channel": message.channel,
            "event": message.event,
            "contentType": message.content_type,
            "bytes": len(message.payload),
        }
        if is_json(message.content_type):
            question["payload"] = msgspec.Raw(message.payload)
        await self._decide(hub, method, (message.publisher, message.session), question)

    async def _decide(self, hub: Hub, method: str, who: Who, question: dict[str, Any]) -> None:
        action, channel = question["action"], question["channel"]
        key = _key(method, action, channel, who)
        known = self._remembered(hub.name, key)
        if known is None:
            cache = self._known.setdefault(hub.name, {})
            verdict = await self._ask(hub, method, who, question)
            reason = None if verdict.allow else verdict.reason[:_REASON_CHARS]
            if verdict.cache_seconds and who != NOBODY:
                # Of no effect where the settings changed meanwhile: `forget` dropped this cache.
                self._remember(cache, key, verdict.cache_seconds, reason)
        else:
            reason = known[1]
        if reason is not None:
            more = f": {reason}" if reason else ""
            raise NotPermitted(f"the hub's hook does not permit to {action} in {channel!r}{more}")

    async def _ask(self, hub: Hub, method: str, who: Who, question: dict[str, Any]) -> _Verdict:
        user, session = who
        named = {"hub": hub.name, "userID": user, "sessionID": session}
        body = msgspec.json.encode(
            question | {name: value for name, value in named.items() if value is not None}
        )
        try:
            answer = await self._services.ask(hub, method, body, JSON, user, session)
            return msgspec.json.decode(answer.payload, type=_Verdict)
        except ServiceRefused as error:
            return _Verdict(False, error.message)
        except Limited:
            raise
        except HubbubError as error:
            raise HookFailed(f"the hook {method!r} could not be asked: {error.message}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            told = f'the hook {method!r} answered something else than {{"allow": …}}'
            raise HookFailed(told, f"{told}: {error}") from None

    def _remembered(self, hub: str, key: tuple[str, ...]) -> tuple[float, str | None] | None:
        known = self._known.get(hub, {}).get(key)
        return known if known is not None and known[0] > self._clock.monotonic() else None

    def _remember(
        self, known: _Decisions, key: tuple[str, ...], seconds: float, reason: str | None
    ) -> None:
        known.pop(key, None)
        while len(known) >= MAX_REMEMBERED:
            del known[next(iter(known))]
        until = self._clock.monotonic() + min(seconds, MAX_CACHE_SECONDS)
        known[key] = (until, reason)

    def forget(self, hub: str) -> None:
        """Drops the cached decisions of a hub whose settings changed."""
        self._known.pop(hub, None)


class _WaitingForConsent(msgspec.Struct, eq=False):
    asking: asyncio.Task[None]
    sent: Sent
    reply: PublishReply
    hand_on: HandOn
    refuse: Refuse


class ConsentQueue:
    """Messages that wait for a hook. Hooks run concurrently; the messages of a channel keep their
    order."""

    def __init__(self, consent: Consent) -> None:
        self.consent = consent
        self._queues: dict[tuple[str, str], deque[_WaitingForConsent]] = {}
        self._counts: dict[str, int] = {}
        self._tasks = TaskSet()

    def submit(
        self,
        hub: Hub,
        method: str,
        sent: Sent,
        reply: PublishReply,
        hand_on: HandOn,
        refuse: Refuse,
    ) -> None:
        """Calls exactly one of `hand_on` and `refuse`, now or later."""
        message = envelope_of(sent)
        key = hub.name, message.channel
        queue = self._queues.get(key)
        if queue is None and self.consent.remembers(hub, method, message):
            hand_on(sent, reply)
            return
        if self._counts.get(hub.name, 0) >= MAX_WAITING:
            error = Overloaded(f"{MAX_WAITING} messages of hub {hub.name!r} wait for hooks already")
            refuse(sent, error, reply)
            return
        self._counts[hub.name] = self._counts.get(hub.name, 0) + 1
        asking = asyncio.get_running_loop().create_task(self.consent.publish(hub, method, message))
        waiting = _WaitingForConsent(asking, sent, reply, hand_on, refuse)
        if queue is not None:
            queue.append(waiting)
        else:
            self._queues[key] = queue = deque((waiting,))
            self._tasks.start(self._work(key, queue))

    async def _work(self, key: tuple[str, str], queue: deque[_WaitingForConsent]) -> None:
        while queue:
            first = queue[0]
            try:
                await first.asking
                first.hand_on(first.sent, first.reply)
            except HubbubError as error:
                first.refuse(first.sent, error, first.reply)
            except Exception:
                logger.exception("asking a hook failed in an unforeseen way")
                first.refuse(first.sent, Internal("asking the hook failed"), first.reply)
            finally:
                queue.popleft()
                self._left(key[0])
                if not queue:
                    del self._queues[key]

    def _left(self, hub: str) -> None:
        left = self._counts[hub] - 1
        if left:
            self._counts[hub] = left
        else:
            del self._counts[hub]


def _key(method: str, action: Action, channel: str, who: Who) -> tuple[str, ...]:
    """A decision is shared by all sessions of a user; an anonymous client's is valid for its
    session."""
    user, session = who
    return method, action, channel, f"u:{user}" if user is not None else f"s:{session}"
