"""Python SDK: `async with connect("ws://127.0.0.1:8000", hub="demo") as client: …`

Needs nothing of the server. `hubbub.client.sync` has the same for programs without asyncio.
"""

import logging

from hubbub.client.client import Client, connect
from hubbub.client.copies.copy import LocalCopy
from hubbub.client.copies.edits import CopyState, Edit, EditConfirmed
from hubbub.client.copies.file import Rejection
from hubbub.client.documents import Document, DocumentChanged, DocumentVersion
from hubbub.client.envelope import Envelope, PublishEnvelope
from hubbub.client.errors import (
    AlreadyProcessed,
    ClientClosed,
    ClientFailed,
    ConnectionLost,
    CopyMismatch,
    EditRejected,
    FileInUse,
    FileUnusable,
    MessagesLost,
    OutboxFull,
    OutboxMismatch,
    QueueFull,
    TopicReplaced,
    Unreachable,
    UntrustedServer,
)
from hubbub.client.events import (
    AccessLost,
    Connected,
    Disconnected,
    Gap,
    Joined,
    Left,
    Member,
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    Occupancy,
    Presence,
)
from hubbub.client.inbox.inbox import Inbox
from hubbub.client.messages import (
    HistoryPage,
    Item,
    Message,
    Receipt,
    ServiceAnswer,
    Thread,
    ThreadsPage,
    TopicMessage,
)
from hubbub.client.notifications import Notification, NotificationPage, Notifications
from hubbub.client.options import Options
from hubbub.client.outbox.outbox import Outbox, put_in
from hubbub.client.outbox.tables import Limits, Refusal
from hubbub.client.subscription import Subscription
from hubbub.client.topics.reader import TopicReader
from hubbub.client.topics.shared import SharedReader
from hubbub.client.topics.topics import Topics
from hubbub.domain.commands.status import CommandRefused
from hubbub.domain.errors import HubbubError, PatchFailed, VersionMismatch
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.messages import Attributes
from hubbub.domain.notices import SessionInfo
from hubbub.domain.notifications import NotificationState
from hubbub.domain.topics import SubscriptionInfo, SubscriptionOptions

__all__ = [
    "AccessLost",
    "AlreadyProcessed",
    "Attributes",
    "Client",
    "ClientClosed",
    "ClientFailed",
    "CommandRefused",
    "Connected",
    "ConnectionLost",
    "CopyMismatch",
    "CopyState",
    "Disconnected",
    "Document",
    "DocumentChanged",
    "DocumentVersion",
    "Edit",
    "EditConfirmed",
    "EditRejected",
    "Envelope",
    "FileInUse",
    "FileUnusable",
    "FilterDefinition",
    "Gap",
    "HistoryPage",
    "HubbubError",
    "Inbox",
    "Item",
    "Joined",
    "Left",
    "Limits",
    "LocalCopy",
    "Member",
    "Message",
    "MessagesLost",
    "Notification",
    "NotificationInfo",
    "NotificationNew",
    "NotificationPage",
    "NotificationRead",
    "NotificationState",
    "Notifications",
    "Occupancy",
    "Options",
    "Outbox",
    "OutboxFull",
    "OutboxMismatch",
    "PatchFailed",
    "Presence",
    "PublishEnvelope",
    "QueueFull",
    "Receipt",
    "Refusal",
    "Rejection",
    "ServiceAnswer",
    "SessionInfo",
    "SharedReader",
    "Subscription",
    "SubscriptionInfo",
    "SubscriptionOptions",
    "Thread",
    "ThreadsPage",
    "TopicMessage",
    "TopicReader",
    "TopicReplaced",
    "Topics",
    "Unreachable",
    "UntrustedServer",
    "VersionMismatch",
    "connect",
    "put_in",
]

# What it logs is shown where the application wants it, and nowhere else.
logging.getLogger(__name__).addHandler(logging.NullHandler())
