"""The partitions that a node owns."""

from __future__ import annotations

from hubbub.engine.channels.channel import Channel


class Terms(dict[int, int]):
    """The term of each partition that this node owns. Writes name the term, so that the store can
    refuse those of a former owner."""

    def of(self, channel: Channel) -> int:
        """0 where another node owns the channel: no write succeeds under this term."""
        return self.get(channel.partition, 0)
