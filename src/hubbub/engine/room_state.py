"""What a room holds of a channel in memory."""

from __future__ import annotations

from hubbub.ports.bus import Attachment, HeadAnnounced


class RoomState:
    """Hangs on the channel (`Channel.state_of`) from when the room puts it there until the channel
    is closed. A room says here what follows from its state for the channel as a whole."""

    __slots__ = ()

    @property
    def idle(self) -> bool:
        """Whether the channel may be closed."""
        return True

    @property
    def size(self) -> int:
        """Bytes of memory, where they are many. Channels that are not in use are closed when the
        states of all channels together are too large."""
        return 0

    def takes_long(self, queued_bytes: int) -> bool:
        """Whether it takes milliseconds to prepare ordered requests of so many bytes."""
        return False

    def attach(self, attachment: Attachment) -> Attachment:
        """Adds what a node is told when it begins to follow the channel."""
        return attachment

    def announce(self, head: HeadAnnounced) -> HeadAnnounced:
        """Adds what followers are told again and again, so that a lost event is noticed."""
        return head
