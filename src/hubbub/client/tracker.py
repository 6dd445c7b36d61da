"""A client's position in a channel: detects repeated and missing messages. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any

from hubbub.client.events import Gap
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.notices import (
    ChannelReset,
    MessageDelivery,
    SubscribedChannel,
    SubscribedPattern,
)
from hubbub.domain.patterns import PatternSet
from hubbub.domain.requests import Position, SubscribeItem

ChannelToken = str | Callable[[str], str]
REMEMBERED_IDS = 1024


class Verdict(enum.Enum):
    """How to handle a delivery."""

    HAND_OVER = "hand over"
    DROP = "drop"  # it was handed over before, or will come again in order
    RECOVER = "recover"  # something before it is missing: subscribe again from the position
    LOST = "lost"  # something before it is missing, and could not be recovered: hand over


@dataclass(slots=True, eq=False)
class Tracker:
    """Passes every message once and in order. `serial` is the last message's.

    Messages with a serial are identified by epoch and serial; messages without one, and retained
    messages, by their ids, of which the last thousand are remembered.
    """

    channel: str
    since: InitVar[int | None] = None
    """Begin after this serial ..."""
    epoch: str | None = None
    since_time: InitVar[int | None] = None
    """... or after this time (milliseconds); without either, with new messages."""
    recovering: bool = True
    """Whether the hub has yet to confirm the position: earlier deliveries will be repeated."""
    began: bool = False
    """Whether the hub has confirmed the position before."""
    pattern: PatternTracker | None = None
    """The pattern through which the channel is followed."""
    filter: FilterDefinition | None = None
    """The subscription's filter; None: everything."""
    presence: dict[str, Any] | None = None
    """This client's presence data."""
    token: ChannelToken | None = None
    """A token that permits the subscription, or a function that returns one."""
    serial: int | None = field(init=False)
    _since_time: int | None = field(init=False)
    _any_serial: bool = False
    """Whether the first message may have any serial."""
    _continues: bool = False
    """Whether the hub confirmed before: retained messages may have been received already."""
    _tried: int | None = None
    _ids: dict[str, None] = field(default_factory=dict)

    def __post_init__(self, since: int | None, since_time: int | None) -> None:
        self.serial = since
        self._since_time = since_time if since is None else None

    def request(self) -> SubscribeItem:
        """The subscription request that continues without a gap."""
        token = self.token(self.channel) if callable(self.token) else self.token
        if self._since_time is not None:
            return SubscribeItem(
                self.channel, timestamp=self._since_time, presence=self.presence, token=token
            )
        return SubscribeItem(
            self.channel,
            serial=self.serial,
            epoch=self.epoch,
            by_pattern=self.pattern is not None,
            presence=self.presence,
            token=token,
        )

    def position(self) -> Position | None:
        """None if the position has no serial."""
        if self.serial is None or self._since_time is not None:
            return None
        return Position(self.channel, self.serial, self.epoch or "")

    def confirm(self, confirmed: SubscribedChannel) -> Gap | None:
        """The hub continues from the position. Returns a gap if it cannot."""
        gap = None
        same_epoch = self.epoch in (None, confirmed.epoch)
        if not confirmed.recovered:
            gap = self._gap(
                "the hub no longer has them"
                if same_epoch
                else "the channel began anew and its history is gone"
            )
            self._any_serial = True
        elif self._since_time is not None:
            self._any_serial = True
        if self.serial is None or not (same_epoch or confirmed.recovered):
            self.serial = confirmed.serial
        self.epoch = confirmed.epoch
        self.recovering = False
        self._continues = self.began and same_epoch
        self.began = True
        return gap

    def reset(self, notice: ChannelReset) -> Gap | None:
        """The hub has invalidated all earlier positions."""
        if notice.epoch == self.epoch and notice.serial == self.serial:
            return None
        gap = None
        if not notice.recovered:
            gap = self._gap(
                "the hub could not close the gap"
                if notice.epoch == self.epoch
                else "the channel began anew"
            )
        self.epoch, self.serial = notice.epoch, notice.serial
        self._any_serial = False
        self._since_time = None
        return gap

    def judge(self, delivery: MessageDelivery) -> Verdict:
        message = delivery.message
        serial = message.serial
        if (
            self.serial is not None
            and serial == self.serial + 1
            and not delivery.retained
            and not self.recovering
        ):
            return self._advance(serial, message.id)
        return self._judge_rarer(delivery)

    def _judge_rarer(self, delivery: MessageDelivery) -> Verdict:
        serial = delivery.message.serial
        if delivery.retained or serial == 0:
            return self._judge_by_id(delivery)
        if self.recovering:
            return Verdict.DROP
        if self._any_serial or self.serial is None:
            return self._advance(serial, delivery.message.id)
        if serial <= self.serial:
            return Verdict.DROP
        before = delivery.previous_serial
        if before is not None and before <= self.serial:
            return self._advance(serial, delivery.message.id)
        return Verdict.LOST if self._tried == self.serial else Verdict.RECOVER

    def skip(self, delivery: MessageDelivery) -> Gap:
        """Continues with a message although an earlier one is missing."""
        gap = self._gap("the hub did not send them")
        self._advance(delivery.message.serial, delivery.message.id)
        return gap

    def recover(self) -> SubscribeItem:
        """Starts to recover missing messages."""
        self.recovering = True
        self._tried = self.serial
        return self.request()

    def _judge_by_id(self, delivery: MessageDelivery) -> Verdict:
        message = delivery.message
        if message.id in self._ids:
            return Verdict.DROP
        had = self.serial is not None and 0 < message.serial <= self.serial
        if delivery.retained and had and self._continues:
            return Verdict.DROP
        if len(self._ids) >= REMEMBERED_IDS:
            del self._ids[next(iter(self._ids))]
        self._ids[message.id] = None
        return Verdict.HAND_OVER

    def _advance(self, serial: int, message_id: str) -> Verdict:
        self.serial = serial
        self._any_serial = False
        self._since_time = None
        if self._ids and message_id in self._ids:  # it came before, as the retained one
            return Verdict.DROP
        return Verdict.HAND_OVER

    def _gap(self, reason: str) -> Gap:
        return Gap(self.channel, reason, self.epoch or "", self.serial or 0)


class PatternTracker(Tracker):
    """The tracker of a pattern. Matching channels have their own trackers."""

    __slots__ = ("_matches", "newest")

    def __init__(self, pattern: str, since_time: int | None = None) -> None:
        super().__init__(pattern, since_time=since_time)
        self._matches = PatternSet((pattern,)).matches
        self.newest = since_time
        """When the newest message of all matching channels was published (milliseconds)."""

    def matches(self, channel: str) -> bool:
        return self._matches(channel)

    def request(self) -> SubscribeItem:
        """Channels without a position, which were created meanwhile, continue from that time."""
        return SubscribeItem(self.channel, timestamp=self.newest)

    def position(self) -> None:
        return None

    def confirm_pattern(self, confirmed: SubscribedPattern, now: int) -> Gap | None:
        """The hub follows matching channels. `now` is in milliseconds since 1970."""
        self.recovering = False
        self.began = True
        self.newest = self.newest or now
        if confirmed.recovered:
            return None
        return Gap(self.channel, "channels may have come and gone meanwhile")
