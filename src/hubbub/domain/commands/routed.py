"""Requests between nodes about commands: commands, results and messages from one client to another,
and the subscriptions of users."""

from __future__ import annotations

import msgspec

from hubbub.domain.asking import Announcement, NodeLane, NodeRequest
from hubbub.domain.commands.status import Status
from hubbub.domain.messages import Message


class CommandAddressee(msgspec.Struct, frozen=True):
    """The receivers of a command: all sessions of a user, or one of them."""

    hub: str
    user_id: str
    session_id: str | None = None


class RoutedCommand(msgspec.Struct, frozen=True):
    """`command` is an hCommand in JSON, under the hub's request id; its receivers have `seconds` to
    respond."""

    receiver: CommandAddressee
    req_id: str
    command: bytes
    seconds: float


class RoutedResult(msgspec.Struct, frozen=True):
    """`result` is JSON; empty if there is nothing to report."""

    req_id: str
    status: Status
    result: bytes


class RoutedMessage(msgspec.Struct, frozen=True):
    receiver: CommandAddressee
    message: Message


class RouteCommand(NodeRequest[int], frozen=True, tag="route_command"):
    """Hands a command to the receiver's sessions on the node; returns how many there are."""

    lane = NodeLane.COMMANDS
    framed = False

    routed: RoutedCommand


class ReturnResult(NodeRequest[None], frozen=True, tag="return_result"):
    """The result of a command, for the node that asked."""

    lane = NodeLane.COMMANDS
    framed = False

    routed: RoutedResult


class RouteMessage(NodeRequest[int], frozen=True, tag="route_message"):
    """Hands a message to the receiver's sessions on the node; returns 0."""

    lane = NodeLane.COMMANDS
    framed = False

    routed: RoutedMessage


class UserFollows(Announcement, frozen=True, tag="user_follows"):
    """A user subscribed all sessions, present and future, to a channel, or unsubscribed them."""

    user_id: str
    channel: str
    follows: bool
