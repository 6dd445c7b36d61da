"""What a ZeroMQ request does: who asks, and what the topics answer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import InvalidToken, NotAuthenticated, NotPermitted
from hubbub.domain.permissions import ANONYMOUS, Identity, Level
from hubbub.domain.requests import (
    Ping,
    ProducerOpen,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import Article
from hubbub.engine.access.tokens import ANY_HUB
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.protocols.zeromq import answers
from hubbub.protocols.zeromq.commands import Shutdown
from hubbub.protocols.zeromq.requests import Credential, Request


class KnownKey(msgspec.Struct, frozen=True):
    """Who the holder of a CURVE key is, and in which hub."""

    hub: str
    identity: Identity


class ReplyFrames(msgspec.Struct, frozen=True):
    """Frames for the client. What they hand out goes back if they cannot be delivered."""

    frames: answers.Frames
    hub: Hub | None = None
    identity: Identity = ANONYMOUS
    articles: Sequence[Article] = ()


class TopicService:
    """Answers requests, one at a time or many at once."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def answer(self, request: Request, key: KnownKey | None, address: str) -> ReplyFrames:
        """`key` is the caller's CURVE key, if that is known. Raises what speaks against it."""
        command, credential = request.command, request.credential
        if isinstance(command, Shutdown):
            self._check_shutdown(credential, address)
            return ReplyFrames(answers.SHUTDOWN)
        if isinstance(command, Ping) and key is None and credential == Credential():
            return ReplyFrames(answers.pong())
        hub, identity = await self._caller(credential, key, address)
        self._node.throttle.admit(hub.name, identity, address)
        return await self._carry_out(request, hub, identity)

    async def give_back(self, request: Request, answer: ReplyFrames) -> None:
        """The client is gone: others that share its subscription need not wait for the lease."""
        command = request.command
        if not isinstance(command, TopicGet) or answer.hub is None:
            return
        topics = self._node.topics
        for topic in dict.fromkeys(each.message.channel for each in answer.articles):
            await topics.acknowledge(
                answer.hub,
                answer.identity,
                topic,
                command.name,
                tuple(each.message.serial for each in answer.articles),
                consumer=command.consumer,
                give_back=True,
            )

    # -- who asks -------------------------------------------------------------------------------

    async def _caller(
        self, credential: Credential, key: KnownKey | None, address: str
    ) -> tuple[Hub, Identity]:
        credentials = self._node.credentials
        if credential.token is not None:
            name = credential.hub
            if name is None:
                name, identity = credentials.identify(credential.token, address)
                if name == ANY_HUB:
                    raise InvalidToken(
                        "the token is for all hubs: put the name of one and a space before it"
                    )
            else:
                identity = await credentials.verify_fetching(credential.token, name, address)
            return self._node.hub(name), identity
        if credential.hub is not None:
            hub = self._node.visit(credential.hub)
            if not hub.configuration.settings.allow_anonymous:
                raise NotAuthenticated(
                    f"hub {hub.name!r} wants a token as the credential, or does not exist "
                    "(`hubbub token` makes one)"
                )
            return hub, ANONYMOUS
        if key is None:
            raise NotAuthenticated("the credential is empty; give a token or the name of a hub")
        self._node.tokens.check(key.identity, key.hub)
        return self._node.hub(key.hub), key.identity

    def _check_shutdown(self, credential: Credential, address: str) -> None:
        """The server serves all hubs, so the administrator of one is not enough."""
        if credential.token is None:
            raise NotAuthenticated("shutdown wants the token of an administrator")
        hub, identity = self._node.credentials.identify(credential.token, address)
        if identity.level is not Level.ADMIN or hub != ANY_HUB:
            raise NotPermitted("only an administrator of all hubs may shut the server down")

    # -- what is asked --------------------------------------------------------------------------

    async def _carry_out(self, request: Request, hub: Hub, identity: Identity) -> ReplyFrames:
        topics = self._node.topics
        match request.command:
            case PublishItem() as item:
                message_id, outcome = await topics.put(hub, identity, item, "zeromq")
                if outcome.error is not None:
                    raise outcome.error
                return ReplyFrames(answers.put_reply(item.channel, message_id, outcome))
            case TopicGet() as get:
                return await self._get(get, hub, identity)
            case TopicAck() as ack:
                floor = await topics.acknowledge(
                    hub,
                    identity,
                    ack.topic,
                    ack.name,
                    ack.serials,
                    ack.up_to,
                    ack.consumer,
                    ack.give_back,
                )
                return ReplyFrames(answers.acknowledged(ack.topic, floor))
            case TopicSubscribe(topic, name, options, start):
                info = await topics.subscribe(hub, identity, topic, name, options, start)
                return ReplyFrames(answers.subscribed(info))
            case TopicUnsubscribe(topic, name):
                await topics.unsubscribe(hub, identity, topic, name)
                return ReplyFrames(answers.unsubscribed(topic, name))
            case ProducerOpen(topic, producer):
                state = await topics.open_producer(hub, identity, topic, producer)
                return ReplyFrames(answers.opened(topic, state))
            case _:
                return ReplyFrames(answers.pong(hub.name))

    async def _get(self, get: TopicGet, hub: Hub, identity: Identity) -> ReplyFrames:
        topics = self._node.topics
        if get.topic is None:
            each = await topics.get_each(hub, identity, get.name)
            articles = [article for found in each.values() for article in found]
            return ReplyFrames(answers.one_of_each(each), hub, identity, articles)
        found = await topics.get(
            hub,
            identity,
            get.topic,
            get.name,
            get.limit,
            get.wait_seconds,
            get.consumer,
            get.ack_up_to,
            get.after,
        )
        return ReplyFrames(answers.articles(get.topic, found), hub, identity, found)


def topic_of(request: Request) -> str:
    """The topic that an error is about, or nothing."""
    command = request.command
    if isinstance(command, PublishItem):
        return command.channel
    return getattr(command, "topic", None) or ""
