"""The notification service: permissions and limits of creating, reading and marking."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit
from hubbub.domain.errors import BadRequest, HubbubError, NotPermitted, TooLarge
from hubbub.domain.names import check_name
from hubbub.domain.notices import NotificationPage
from hubbub.domain.notifications import (
    MAX_BATCH,
    MAX_PAGE,
    Created,
    CreateNotifications,
    DeleteNotifications,
    DescribeNotifications,
    ForgetNotifications,
    MarkResult,
    NotificationItem,
    NotificationResult,
    NotificationState,
    PageNotifications,
    Selection,
    SetReadMarks,
    StoredNotifications,
    check_item,
    check_kind,
    portions,
)
from hubbub.domain.permissions import Identity, Reader
from hubbub.domain.requests import NotificationQuery
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.engine.publishing import Publisher
from hubbub.ports import randomness
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

DEFAULT_PAGE = 100


class NotificationService:
    """Readers of a channel may read and mark its notifications; services create, delete and mark as
    unread. Every method raises `NotPermitted`, `WrongChannelKind`, `InvalidName`, `Unavailable`."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        limits: EngineLimits,
        access: AccessRegistry,
        publisher: Publisher,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._limits = limits
        self._access = access
        self._publisher = publisher

    # -- for who may read -----------------------------------------------------------------------

    async def state(self, hub: Hub, identity: Identity, channel: str) -> NotificationState:
        await self._check_reader(hub, identity, channel)
        answer = await self._bus.ask(DescribeNotifications(hub.name, channel))
        assert isinstance(answer, NotificationState)
        return answer

    async def page(
        self, hub: Hub, identity: Identity, request: NotificationQuery
    ) -> NotificationPage:
        """Raises `BadRequest` for contradictory bounds."""
        await self._check_reader(hub, identity, request.channel)
        if request.after is not None and request.before is not None:
            raise BadRequest("give at most one of after and before")
        if not 0 <= request.limit <= MAX_PAGE:
            raise BadRequest(f"limit is {request.limit}; give 1 to {MAX_PAGE}")
        found = await self._bus.ask(
            PageNotifications(
                hub.name,
                request.channel,
                request.limit or DEFAULT_PAGE,
                request.unread,
                request.after,
                request.before,
            )
        )
        assert isinstance(found, StoredNotifications)
        return NotificationPage(
            request.channel, found.notifications, found.more, found.state, request.req_id
        )

    async def mark(
        self, hub: Hub, identity: Identity, channel: str, which: Selection
    ) -> MarkResult:
        """Marks notifications as read. Raises `BadRequest`, `TooLarge`."""
        await self._check_reader(hub, identity, channel)
        return await self._mark(hub, identity, channel, which, read=True)

    # -- for services ---------------------------------------------------------------------------

    async def create(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        items: Sequence[NotificationItem | HubbubError],
    ) -> list[NotificationResult]:
        """Creates each valid notification; returns one result per item, in order. Raises
        `BadRequest`, and `TooLarge` for the whole request."""
        self._check_service(identity, channel)
        if not 0 < len(items) <= MAX_BATCH:
            count = len(items)
            raise (TooLarge if count else BadRequest)(
                f"{count} notifications; give 1 to {MAX_BATCH} in a request"
            )
        results: list[NotificationResult | None] = [None] * len(items)
        good: list[NotificationItem] = []
        places: list[int] = []
        for place, item in enumerate(items):
            try:
                good.append(self._checked(hub, identity, channel, item))
                places.append(place)
            except HubbubError as error:
                identifier = item.id if isinstance(item, NotificationItem) else None
                results[place] = NotificationResult(identifier, error=error)
        for portion in portions(good):
            for result in await self._create(hub, channel, portion):
                place = places.pop(0)
                results[place] = _as_asked(result, items[place])
                hub.counters.notifications += result.error is None and not result.duplicate
        return [result for result in results if result is not None]

    async def _create(
        self, hub: Hub, channel: str, items: tuple[NotificationItem, ...]
    ) -> Sequence[NotificationResult]:
        try:
            created = await self._bus.ask(CreateNotifications(hub.name, channel, items))
        except HubbubError as error:
            return [NotificationResult(item.id, error=error) for item in items]
        assert isinstance(created, Created)
        return created.results

    def _checked(
        self, hub: Hub, identity: Identity, channel: str, item: NotificationItem | HubbubError
    ) -> NotificationItem:
        """The notification to create, with an author and an id, by which the owner recognises a
        repeated request."""
        if isinstance(item, HubbubError):
            raise item
        now = int(self._clock.now() * 1000)
        check_item(item, self._limits.notification_bytes, now)
        if hub.limited:
            self._publisher.check_quotas(hub, channel)
        return msgspec.structs.replace(
            item,
            id=item.id or randomness.token_urlsafe(12),
            author=item.author or identity.user_id,
        )

    async def mark_unread(
        self, hub: Hub, identity: Identity, channel: str, which: Selection
    ) -> MarkResult:
        """Raises `BadRequest`, `TooLarge`."""
        self._check_service(identity, channel)
        return await self._mark(hub, identity, channel, which, read=False)

    async def delete(
        self,
        hub: Hub,
        identity: Identity,
        channel: str,
        which: Selection,
        audit: Audit = UNSET,
    ) -> MarkResult:
        """Raises `BadRequest`, `TooLarge`."""
        self._check_service(identity, channel)
        request = DeleteNotifications(hub.name, channel, which.checked("delete"), audit)
        answer = await self._bus.ask(request)
        assert isinstance(answer, MarkResult)
        return answer

    async def forget(self, hub: Hub, channel: str) -> int:
        """Deletes the channel with all its notifications. Returns their number."""
        answer = await self._bus.ask(ForgetNotifications(hub.name, check_kind(channel)))
        assert isinstance(answer, int)
        return answer

    # -- both -----------------------------------------------------------------------------------

    async def _mark(
        self, hub: Hub, identity: Identity, channel: str, which: Selection, read: bool
    ) -> MarkResult:
        chosen = which.checked("mark")
        answer = await self._bus.ask(
            SetReadMarks(hub.name, channel, chosen, read, identity.user_id)
        )
        assert isinstance(answer, MarkResult)
        return answer

    async def _check_reader(self, hub: Hub, identity: Identity, channel: str) -> None:
        check_kind(check_name(channel, "channel"))
        self._access.check(hub.name, Reader(identity), channel)
        await hub.consent(identity, channel)

    @staticmethod
    def _check_service(identity: Identity, channel: str) -> None:
        check_kind(check_name(channel, "channel"))
        if not identity.trusted:
            raise NotPermitted("only services create, delete and unread notifications")


def _as_asked(
    result: NotificationResult, item: NotificationItem | HubbubError
) -> NotificationResult:
    """An id created by the hub is new to the caller, even if the request to the owner was
    repeated."""
    given = isinstance(item, NotificationItem) and item.id is not None
    return result if given else msgspec.structs.replace(result, duplicate=False)
