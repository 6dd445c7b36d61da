"""What the engine needs from durable storage.

Every adapter passes `tests/contract/store_contract.py`. Nothing here assumes a particular
database.

Contract for all methods:
- When an awaited write returns, it is on disk; a crash right after loses nothing of it.
- A write is all or nothing, except where a method says otherwise. Writes of one caller to one
  hub that were started in order take effect in order; between hubs there is no order.
- Failures raise `StoreUnavailable` (the store is away, full or read-only; nothing of the write
  took effect) or an error named at the method. Never a driver's own exception.
- Methods are called from the event loop and never block it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hubbub.ports.storage.administration import AdministrationStore
from hubbub.ports.storage.commands import CommandStore
from hubbub.ports.storage.communication import CommunicationStore
from hubbub.ports.storage.documents import DocumentStore
from hubbub.ports.storage.erasure import ErasureStore
from hubbub.ports.storage.exports import ExportStore
from hubbub.ports.storage.messages import MessageStore
from hubbub.ports.storage.metering import MeteringStore
from hubbub.ports.storage.notifications import NotificationStore
from hubbub.ports.storage.partitions import PartitionStore
from hubbub.ports.storage.push import PushStore
from hubbub.ports.storage.restoring import RestoreStore
from hubbub.ports.storage.search import SearchStore
from hubbub.ports.storage.sessions import SessionStore
from hubbub.ports.storage.settings import SettingsStore
from hubbub.ports.storage.threads import ThreadStore
from hubbub.ports.storage.topics import TopicStore
from hubbub.ports.storage.webhooks import WebhookStore


class Store(
    PartitionStore,
    MessageStore,
    ThreadStore,
    SearchStore,
    TopicStore,
    NotificationStore,
    DocumentStore,
    WebhookStore,
    PushStore,
    CommandStore,
    CommunicationStore,
    ErasureStore,
    ExportStore,
    SettingsStore,
    AdministrationStore,
    SessionStore,
    RestoreStore,
    MeteringStore,
    Protocol,
):
    """All roles of one database. Depend on the role that you need, not on this class."""

    async def open(self) -> None:
        """Connects and migrates the schema. Raises `StoreUnavailable` with a remedy if the data is
        of a newer version, corrupt, or not writable."""

    def bound_by(self, quota_of: Callable[[str], int]) -> None:
        """Sets the quota: `quota_of` returns the bytes that a hub may use, 0 for no limit. A write
        that adds data raises `QuotaExceeded` if it would leave the hub above its quota and larger
        than before. The callers check appends of messages, changes and notifications themselves;
        progress of existing objects is never refused."""

    @property
    def problem(self) -> str | None:
        """Why the store cannot read and write everything now, in words that everyone may read; None
        if it can."""

    def look_again(self) -> None:
        """Checks whether a problem appeared or ended; call it about every second."""

    async def close(self) -> None:
        """Finishes started operations, then releases all files, threads and connections."""
