"""Converts rows of a backup for staging: new epochs, and the target hub's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from hubbub.domain.commands.jids import Jid, parse_jid
from hubbub.domain.commands.objects import HChannel
from hubbub.domain.cursors import CursorRecord
from hubbub.domain.errors import ArchiveRefused, HubbubError
from hubbub.domain.messages import Attributes, Message
from hubbub.domain.names import partition_of
from hubbub.domain.permissions import Reader
from hubbub.domain.rules import SECTIONS
from hubbub.domain.stored_settings import decode_setting
from hubbub.domain.webhooks import WEBHOOK_OWNER, PendingVerification
from hubbub.ports.storage.restoring import Value
from hubbub.storage.sql.epochs import NextEpochs
from hubbub.storage.sql.hub_tables import DERIVED, HubTable
from hubbub.storage.sql.records import from_blob, to_blob

_LEADS_OUTSIDE = frozenset(
    ("webhooks", "push_tokens", "push_followings", "push_credentials", "comm_deliveries")
)
"""Omitted if the hub's name changes: two hubs would send to the same receivers."""
_DECIDED = 0
"""The state of a message to peers that needs no further processing."""

_SETTINGS = {section.kind: section.type for section in SECTIONS}
_DECLARED = "declared"
"""The kind of the setting that lists what the configuration file declared."""
_TYPES = {"text": str, "bigint": int, "bytea": bytes}
_PACKED: Mapping[tuple[str, str], Any] = {
    ("channel_records", "record"): HChannel,
    ("cursors", "state"): CursorRecord,
    ("messages", "attributes"): Attributes,
    ("push_followings", "acting"): Reader,
    ("push_tokens", "acting"): Reader,
    ("retained", "message"): Message,
    ("webhooks", "acting"): Reader,
    ("webhooks", "pending"): PendingVerification,
}
"""MessagePack types by (table, column)."""


class RowConversion:
    """Converts rows of the backed-up hub `source` to rows of the hub `target`."""

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target
        self._copies = source != target
        self._epochs = NextEpochs()

    def convert(self, table: HubTable, row: Sequence[Value]) -> list[Value] | None:
        """The row for staging; None: omitted. Raises `ArchiveRefused`."""
        if table.name in DERIVED:
            return None
        new = dict(zip(table.columns, row, strict=True))
        _check(table, new)
        if table.of_hub:
            new["hub"] = self._target
        if new.get("searched") is not None:
            new["searched"] = 0
        if table.counted and "epoch" in new:
            channel = str(new.get("channel", new.get("name")))
            new["epoch"] = self._epochs.epoch(self._source, channel, str(new["epoch"]))
        if table.name == "cursors":
            place = self._source, str(new["channel"])
            new["state"] = self._epochs.cursor(*place, cast(bytes, new["state"]))
        if table.name == "retained":
            message = from_blob(cast(bytes, new["message"]))
            message.hub = self._target
            new["message"] = to_blob(message)
        if "partition_id" in new and new["partition_id"] is not None:
            new["partition_id"] = partition_of(self._target, cast(str, new["channel"]))
        if self._copies and not self._rename(table.name, new):
            return None
        return list(new.values())

    def _rename(self, table: str, row: dict[str, Value]) -> bool:
        """Whether the row belongs into a hub of another name."""
        if table in _LEADS_OUTSIDE or (table == "cursors" and row["owner"] == WEBHOOK_OWNER):
            return False
        if table == "settings" and row["kind"] == _DECLARED:
            return False  # the file declares no such hub, and the next start would take it away
        if table == "comm_messages":
            row["state"], row["plan"] = _DECIDED, None
        elif table == "channel_records":
            record = msgspec.msgpack.decode(cast(bytes, row["record"]), type=HChannel)
            record = msgspec.structs.replace(
                record,
                owner=self._own(record.owner),
                participants=tuple(map(self._own, record.participants)),
            )
            row["record"] = msgspec.msgpack.encode(record)
            row["owner"] = self._own(cast(str, row["owner"]))
        return True

    def _own(self, jid: str) -> str:
        """Maps a user of the source to the target; users of other hubs stay unchanged."""
        parsed = parse_jid(jid)
        if parsed is None or parsed.domain != self._source:
            return jid
        return str(Jid(parsed.user, self._target))


def _check(table: HubTable, row: Mapping[str, Value]) -> None:
    """Checks that nodes can decode the row: an invalid one would prevent them from loading all hubs
    at start. Raises `ArchiveRefused`."""
    for column, kind in table.columns.items():
        if row[column] is not None and type(row[column]) is not _TYPES[kind]:
            raise ArchiveRefused(f"the archive holds {table.name} whose {column} is no {kind}")
    try:
        if table.name == "settings":
            _read_setting(str(row["kind"]), cast(bytes, row["value"]))
        for (name, column), packed in _PACKED.items():
            if name == table.name and row[column] is not None:
                msgspec.msgpack.decode(cast(bytes, row[column]), type=packed)
    except (msgspec.MsgspecError, ValueError, RecursionError, HubbubError) as error:
        raise ArchiveRefused(
            f"the archive holds {table.name} that cannot be read: {error}"
        ) from error


def _read_setting(kind: str, value: bytes) -> None:
    if kind in _SETTINGS:
        decode_setting(value, _SETTINGS[kind])
    elif kind == _DECLARED:
        msgspec.json.decode(value, type=list[tuple[str, str]])
