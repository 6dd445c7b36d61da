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

from typing import Protocol

from hubbub.ports.storage.administration import AdministrationStore
from hubbub.ports.storage.commands import CommandStore
from hubbub.ports.storage.communication import CommunicationStore
from hubbub.ports.storage.documents import DocumentStore
from hubbub.ports.storage.exports import ExportStore
from hubbub.ports.storage.messages import MessageStore
from hubbub.ports.storage.notifications import NotificationStore
from hubbub.ports.storage.partitions import PartitionStore
from hubbub.ports.storage.push import PushStore
from hubbub.ports.storage.restoring import RestoreStore
from hubbub.ports.storage.sessions import SessionStore
from hubbub.ports.storage.settings import SettingsStore
from hubbub.ports.storage.threads import ThreadStore
from hubbub.ports.storage.topics import TopicStore
from hubbub.ports.storage.webhooks import WebhookStore


class Store(
    PartitionStore,
    MessageStore,
    ThreadStore,
    TopicStore,
    NotificationStore,
    DocumentStore,
    WebhookStore,
    PushStore,
    CommandStore,
    CommunicationStore,
    ExportStore,
    SettingsStore,
    AdministrationStore,
    SessionStore,
    RestoreStore,
    Protocol,
):
    """All roles of one database. Who needs a role asks for that role."""

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `StoreUnavailable` with a remedy if the
        data is of a newer version, corrupt, or not writable."""

    async def close(self) -> None:
        """Finish what was started, then let go of every file, thread and connection."""
