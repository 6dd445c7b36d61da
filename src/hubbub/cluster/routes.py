"""Routes calls to the owners of their channels, also while channels move from node to node.

A node that does not own a channel refuses a call with `StaleOwner`; the call had no effect, and is
sent again to the owner in the current ring. Calls of one partition stay in order: if one must be
repeated, later ones wait until all calls in progress have returned. A call to a crashed node may
have taken effect: it is repeated only if that is safe."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

from hubbub.cluster.datagrams import Call, PublishCall, PublishConfirmed, may_repeat
from hubbub.cluster.lanes import Conclude, awaited
from hubbub.cluster.sending import NodeLost, Requests
from hubbub.cluster.service import QUESTIONS, Service
from hubbub.cluster.transport import Owners
from hubbub.domain.asking import Sent
from hubbub.domain.errors import HubbubError, Internal, StaleOwner, Unavailable
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.01
LONGEST_RETRY_SECONDS = 0.1


class RoutedCall:
    """A call in progress."""

    __slots__ = ("call", "conclude", "deadline", "kind", "number", "partition")

    def __init__(
        self,
        number: int,
        partition: int,
        call: Call,
        kind: Any,
        conclude: Conclude,
        deadline: float,
    ) -> None:
        self.number = number
        self.partition = partition
        self.call = call
        self.kind = kind
        self.conclude = conclude
        self.deadline = deadline


class _Detour:
    """The calls of a partition that wait to be sent, for the first time or again."""

    __slots__ = ("delay", "timer", "waiting")

    def __init__(self) -> None:
        self.waiting: list[RoutedCall] = []
        self.delay = FIRST_RETRY_SECONDS
        self.timer: asyncio.TimerHandle | None = None


class OwnerRoutes:
    """The calls of one node. `service` handles those for this node itself."""

    def __init__(
        self,
        node: str,
        owners: Owners,
        requests: Requests,
        service: Service,
        deadline_seconds: float,
    ) -> None:
        self.service = service
        self._node = node
        self._owners = owners
        self._requests = requests
        self._deadline_seconds = deadline_seconds
        self._numbers = itertools.count(1)
        self._detours: dict[int, _Detour] = {}
        self._tasks = TaskSet()

    def is_direct(self, partition: int) -> bool:
        """Whether the call can be made in this process now."""
        return self._owners.serves(partition) and partition not in self._detours

    def publish(
        self,
        partition: int,
        message: Sent,
        reply: PublishReply | None,
    ) -> None:
        if self.is_direct(partition):
            if reply is None:
                self.service.owner.publish(message, None)
            else:
                back = _Back(self, next(self._numbers), partition, message, reply)
                self.service.owner.publish(message, back)
            return
        call = PublishCall(message, reply is not None)
        self.send(partition, call, PublishConfirmed, _told(reply))

    def send(self, partition: int, call: Call, kind: Any, conclude: Conclude) -> None:
        deadline = asyncio.get_running_loop().time() + self._deadline_seconds
        number = next(self._numbers)
        self._route(RoutedCall(number, partition, call, kind, conclude, deadline))

    async def ask(self, partition: int, call: Call, kind: Any) -> Any:
        """The owner's response. Raises the owner's `HubbubError`, or `Unavailable`."""
        if self.is_direct(partition):
            try:
                return await self.service.find_out(self._node, call)
            except StaleOwner:
                pass  # it has just moved
        answered, conclude = awaited()
        self.send(partition, call, kind, conclude)
        return await answered

    def owners_changed(self) -> None:
        """Checks all waiting calls again."""
        for partition in list(self._detours):
            self._retry(partition)

    async def close(self) -> None:
        for detour in self._detours.values():
            if detour.timer is not None:
                detour.timer.cancel()
            for routed in detour.waiting:
                routed.conclude(None, Unavailable("this node leaves the cluster"))
        self._detours.clear()
        await self._tasks.end()

    # -- one call -------------------------------------------------------------------------------

    def _route(self, routed: RoutedCall) -> None:
        partition = routed.partition
        owner = self._owners.owner_of(partition)
        if partition in self._detours:
            self._wait(routed)
        elif self._owners.serves(partition):
            self._serve(routed)
        elif owner in ("", self._node):
            self._wait(routed)
        else:
            self._requests.send(
                owner,
                partition,
                routed.call,
                routed.kind,
                lambda value, error: self._answered(routed, value, error),
                routed.deadline,
            )

    def _serve(self, routed: RoutedCall) -> None:
        call = routed.call
        if isinstance(call, PublishCall):
            back = _Back(
                self,
                routed.number,
                routed.partition,
                call.message,
                _telling(routed.conclude),
                routed.deadline,
            )
            self.service.owner.publish(call.message, back)
        elif isinstance(call, QUESTIONS):
            self._tasks.start(self._find_out(routed))
        else:
            self.service.do(self._node, call)
            routed.conclude(None, None)

    async def _find_out(self, routed: RoutedCall) -> None:
        try:
            answer = await self.service.find_out(self._node, routed.call)
        except HubbubError as error:
            self._answered(routed, None, error)
        except Exception:
            logger.exception("a call failed in an unforeseen way")
            routed.conclude(None, Internal("the channel's owner failed to handle the request"))
        else:
            routed.conclude(answer, None)

    def _answered(self, routed: RoutedCall, value: Any, error: HubbubError | None) -> None:
        again = isinstance(error, StaleOwner) or (
            isinstance(error, NodeLost) and (not error.perhaps or may_repeat(routed.call))
        )
        if again:
            self.wait(routed)
        else:
            routed.conclude(value, error)

    # -- waiting --------------------------------------------------------------------------------

    def wait(self, routed: RoutedCall) -> None:
        """The call had no effect at its destination: it is routed again."""
        if asyncio.get_running_loop().time() < routed.deadline:
            self._wait(routed)
        else:
            routed.conclude(None, _unserved(routed.partition))

    def _wait(self, routed: RoutedCall) -> None:
        detour = self._detours.get(routed.partition)
        if detour is None:
            detour = self._detours[routed.partition] = _Detour()
            self._look_after(routed.partition, detour)
        detour.waiting.append(routed)

    def _look_after(self, partition: int, detour: _Detour) -> None:
        loop = asyncio.get_running_loop()
        if detour.timer is not None:
            detour.timer.cancel()
        detour.timer = loop.call_later(detour.delay, self._retry, partition)
        detour.delay = min(2 * detour.delay, LONGEST_RETRY_SECONDS)

    def _retry(self, partition: int) -> None:
        detour = self._detours[partition]
        now = asyncio.get_running_loop().time()
        late = [routed for routed in detour.waiting if routed.deadline <= now]
        detour.waiting = [routed for routed in detour.waiting if routed.deadline > now]
        owner = self._owners.owner_of(partition)
        unknown = owner == "" or (owner == self._node and not self._owners.serves(partition))
        if unknown or self._requests.busy(partition):
            self._look_after(partition, detour)
        else:
            if detour.timer is not None:
                detour.timer.cancel()
            del self._detours[partition]
            for routed in sorted(detour.waiting, key=lambda routed: routed.number):
                self._route(routed)
            again = self._detours.get(partition)
            if again is not None:
                again.delay = detour.delay
        for routed in late:
            routed.conclude(None, _unserved(partition))


class _Back:
    """The reply to a publish in this process; a refused one is routed again."""

    __slots__ = ("_deadline", "_message", "_number", "_partition", "_reply", "_routes")

    def __init__(
        self,
        routes: OwnerRoutes,
        number: int,
        partition: int,
        message: Sent,
        reply: PublishReply,
        deadline: float = 0.0,
    ) -> None:
        self._routes = routes
        self._number = number
        self._partition = partition
        self._message = message
        self._reply = reply
        self._deadline = deadline

    def __call__(self, outcome: PublishOutcome) -> None:
        if not isinstance(outcome.error, StaleOwner):
            self._reply(outcome)
            return
        now = asyncio.get_running_loop().time()
        self._routes.wait(
            RoutedCall(
                self._number,
                self._partition,
                PublishCall(self._message, awaited=True),
                PublishConfirmed,
                _told(self._reply),
                self._deadline or now + self._routes._deadline_seconds,
            )
        )


def _told(reply: PublishReply | None) -> Conclude:
    """Converts the response to a remote publish for the waiting publisher."""

    def conclude(published: PublishConfirmed | None, error: HubbubError | None) -> None:
        if reply is None:
            return
        if published is None:
            reply(PublishOutcome(error=error))
        else:
            p = published
            reply(PublishOutcome(p.serial, error, p.duplicate, p.message_id, p.change))

    return conclude


def _telling(conclude: Conclude) -> PublishReply:
    """Converts the outcome of a publish into a response."""

    def reply(outcome: PublishOutcome) -> None:
        if outcome.error is not None:
            conclude(None, outcome.error)
        else:
            o = outcome
            conclude(PublishConfirmed(o.serial, o.duplicate, o.message_id, o.change), None)

    return reply


def _unserved(partition: int) -> Unavailable:
    return Unavailable(
        f"no node serves this channel at the moment (partition {partition}); try again"
    )
