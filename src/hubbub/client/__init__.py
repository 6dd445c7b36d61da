"""Python SDK: `async with connect("ws://127.0.0.1:8000", hub="demo") as client: …`

Needs nothing of the server. `hubbub.client.sync` has the same for programs without asyncio.
"""

from hubbub.client.client import Client, connect
from hubbub.client.errors import (
    ClientClosed,
    ConnectionLost,
    MessagesLost,
    QueueFull,
    Unreachable,
)
from hubbub.client.events import (
    AccessLost,
    Connected,
    Disconnected,
    Gap,
    Joined,
    Left,
    Member,
    Occupancy,
    Presence,
)
from hubbub.client.messages import HistoryPage, Item, Message, Receipt
from hubbub.client.options import Options
from hubbub.client.subscription import Subscription
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import SessionInfo

__all__ = [
    "AccessLost",
    "Client",
    "ClientClosed",
    "Connected",
    "ConnectionLost",
    "Disconnected",
    "Gap",
    "HistoryPage",
    "HubbubError",
    "Item",
    "Joined",
    "Left",
    "Member",
    "Message",
    "MessagesLost",
    "Occupancy",
    "Options",
    "Presence",
    "QueueFull",
    "Receipt",
    "SessionInfo",
    "Subscription",
    "Unreachable",
    "connect",
]
