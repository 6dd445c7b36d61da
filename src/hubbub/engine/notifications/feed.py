"""The notifications of a channel as one node follows them."""

from __future__ import annotations

from hubbub.domain.asking import FeedEvent
from hubbub.domain.notices import NotificationInfo, NotificationNew, NotificationRead
from hubbub.domain.notifications import NotificationsChanged, NotificationState
from hubbub.engine.delivery.feed_part import FeedPart, FollowedChannel
from hubbub.ports.bus import Attachment, Bus

_UNKNOWN = NotificationState("", 0, 0, 0, 0)


class NotificationFeed(FeedPart):
    """`state` is the state last sent to subscribers. A gap shows in its revision: subscribers then
    fetch the missing notifications."""

    events = (NotificationsChanged,)
    replaces_messages = True

    __slots__ = ("state",)

    def __init__(self, feed: FollowedChannel, bus: Bus) -> None:
        super().__init__(feed, bus)
        self.state = _UNKNOWN

    def begin(self, attachment: Attachment) -> None:
        early = self.state
        if attachment.notifications is not None:
            self.state = attachment.notifications
        if early is not _UNKNOWN:
            self._take(NotificationsChanged(early))

    def renewed(self, attachment: Attachment) -> None:
        if attachment.notifications is not None:
            self._take(NotificationsChanged(attachment.notifications))

    def receive_early(self, event: FeedEvent) -> None:
        assert isinstance(event, NotificationsChanged)
        self.state = event.state

    def receive(self, event: FeedEvent) -> None:
        assert isinstance(event, NotificationsChanged)
        self._take(event)

    def _take(self, event: NotificationsChanged) -> None:
        known, state = self.state, event.state
        if known.epoch == state.epoch and known.revision >= state.revision:
            return
        self.state = state
        channel, say = self._feed.channel, self._feed.say
        for revision, notification in enumerate(
            event.created, state.revision - len(event.created) + 1
        ):
            say(NotificationNew(channel, revision, notification))
        mark = event.read
        if mark is not None:
            say(
                NotificationRead(
                    channel, state.revision, mark.read_at, mark.ids, mark.up_to, mark.read_by
                )
            )
        say(self.info())

    def info(self) -> NotificationInfo:
        return NotificationInfo(self._feed.channel, self.state)
