"""The topic filters of one device, and what follows from them for each channel."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hubbub.protocols.mqtt.names import is_visible, matches, topic_of


class FilterOptions(msgspec.Struct, frozen=True, array_like=True):
    """The options of one subscription; `names` are the channels and patterns of its filter."""

    names: tuple[str, ...]
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


class ChannelOptions(msgspec.Struct, frozen=True):
    """How messages of a channel are delivered. `qos` is None if no filter matches its topic: the
    patterns of a filter match names beginning with `$`, which the filter does not."""

    qos: int | None
    no_local: bool = False
    retain_as_published: bool = False
    identifiers: tuple[int, ...] = ()


_MOST_KNOWN = 1000
_SILENT = ChannelOptions(None)


class DeviceFilters:
    """By topic filter. Overlapping filters bring one copy, at the highest QoS, with all
    identifiers."""

    def __init__(self) -> None:
        self._filters: dict[str, FilterOptions] = {}
        self._known: dict[str, ChannelOptions] = {}
        """By channel, until the filters change."""

    def __len__(self) -> int:
        return len(self._filters)

    def all(self) -> dict[str, FilterOptions]:
        return self._filters

    def get(self, topic_filter: str) -> FilterOptions | None:
        return self._filters.get(topic_filter)

    def put(self, topic_filter: str, options: FilterOptions) -> None:
        self._known.clear()
        self._filters[topic_filter] = options

    def pop(self, topic_filter: str) -> FilterOptions | None:
        self._known.clear()
        return self._filters.pop(topic_filter, None)

    def names(self) -> frozenset[str]:
        """All channels and patterns that the filters stand for."""
        return frozenset(name for each in self._filters.values() for name in each.names)

    def _matching(self, topic: str) -> Iterator[FilterOptions]:
        for topic_filter, options in self._filters.items():
            if matches(topic_filter, topic):
                yield options

    def for_channel(self, channel: str) -> ChannelOptions:
        known = self._known.get(channel)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[channel] = self._options_for(channel)
        return known

    def _options_for(self, channel: str) -> ChannelOptions:
        found = list(self._matching(topic_of(channel))) if is_visible(channel) else []
        if not found:
            return _SILENT
        if len(found) == 1:
            only = found[0]
            return ChannelOptions(
                only.qos,
                only.no_local,
                only.retain_as_published,
                (only.identifier,) if only.identifier else (),
            )
        return ChannelOptions(
            max(each.qos for each in found),
            all(each.no_local for each in found),
            any(each.retain_as_published for each in found),
            tuple(each.identifier for each in found if each.identifier),
        )
