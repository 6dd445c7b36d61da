"""Executes ZeroMQ requests: identifies the caller and calls the topic service."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import InvalidToken, NotAuthenticated
from hubbub.domain.permissions import ANONYMOUS, Identity
from hubbub.domain.requests import Ping, PublishItem, TopicAck, TopicGet
from hubbub.domain.topics import Article
from hubbub.engine.access.tokens import ANY_HUB
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.stopping import ServerStop
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.topics.service import Topics
from hubbub.protocols.zeromq import answers
from hubbub.protocols.zeromq.commands import Shutdown
from hubbub.protocols.zeromq.requests import ZeromqCredential, ZeromqRequest


class KnownKey(msgspec.Struct, frozen=True):
    """The owner of a CURVE key, and the owner's hub."""

    hub: str
    identity: Identity


class ReplyFrames(msgspec.Struct, frozen=True):
    """Frames for the client. Messages in them are given back if they cannot be sent."""

    frames: answers.Frames
    hub: Hub | None = None
    identity: Identity = ANONYMOUS
    articles: Sequence[Article] = ()


class TopicService:
    """Handles requests, one at a time or concurrently."""

    def __init__(self, node: Node, stop: ServerStop) -> None:
        self._node = node
        self._topics = node.feature(Topics)
        self._stop = stop
        self.clock = node.clock

    async def answer(
        self, request: ZeromqRequest, key: KnownKey | None, address: str
    ) -> ReplyFrames:
        """`key` is the caller's CURVE key, if known. Raises `HubbubError`."""
        command, credential = request.command, request.credential
        if isinstance(command, Shutdown):
            await self._shut_down(credential, address)
            return ReplyFrames(answers.SHUTDOWN)
        if isinstance(command, Ping) and key is None and credential == ZeromqCredential():
            return ReplyFrames(answers.pong())
        hub, identity = await self._caller(credential, key, address)
        self._node.throttle.admit(hub.name, identity, address)
        note = self._node.note_about(hub)  # what the request stores declares the hub
        reply = await self._carry_out(request, hub, identity)
        if note is None:
            return reply
        return msgspec.structs.replace(reply, frames=answers.with_note(reply.frames, note))

    async def give_back(self, request: ZeromqRequest, answer: ReplyFrames) -> None:
        """The client disconnected: its messages are released, so that other consumers need not wait
        for the lease."""
        command = request.command
        if not isinstance(command, TopicGet) or answer.hub is None:
            return
        serials = tuple(each.message.serial for each in answer.articles)
        for topic in dict.fromkeys(each.message.channel for each in answer.articles):
            back = TopicAck(topic, command.name, serials, consumer=command.consumer, give_back=True)
            await self._topics.acknowledge(answer.hub, answer.identity, back)

    # -- who asks -------------------------------------------------------------------------------

    async def _caller(
        self, credential: ZeromqCredential, key: KnownKey | None, address: str
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
            hub = self._node.visit(credential.hub, address)
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

    async def _shut_down(self, credential: ZeromqCredential, address: str) -> None:
        if credential.token is None:
            raise NotAuthenticated("shutdown wants the token of an administrator")
        _, identity = self._node.credentials.identify(credential.token, address)
        await self._stop.request(Actor(identity), "ZeroMQ")

    # -- what is asked --------------------------------------------------------------------------

    async def _carry_out(self, request: ZeromqRequest, hub: Hub, identity: Identity) -> ReplyFrames:
        command, topics = request.command, self._topics
        if isinstance(command, PublishItem):
            message_id, outcome = await topics.put(hub, identity, command, "zeromq")
            return ReplyFrames(answers.put_reply(command.channel, message_id, outcome))
        if isinstance(command, Ping | Shutdown):
            return ReplyFrames(answers.pong(hub.name))
        notice = await topics.answer(hub, identity, command, "zeromq")
        return ReplyFrames(answers.frames_of(notice), hub, identity, answers.handed_out(notice))


def topic_of(request: ZeromqRequest) -> str:
    """The topic that an error is about, or nothing."""
    command = request.command
    if isinstance(command, PublishItem):
        return command.channel
    return getattr(command, "topic", None) or ""
