"""SQL of the communication service."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UnsetType

from hubbub.domain.communication.messages import COLLECTIVE, CONTROL
from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo
from hubbub.domain.communication.steps import (
    DECIDED,
    DUE,
    HELD,
    NEW,
    PLANNED,
    WAITING,
    CommunicationStep,
    DeliveryRow,
)
from hubbub.domain.messages import Attributes, Message
from hubbub.ports.storage.communication import LoggedMessage, LogPage, LogQuery, PeerToken
from hubbub.storage.sql.audit import append_audit
from hubbub.storage.sql.connection import (
    ManyRows,
    Row,
    Sql,
    insert,
    put,
    rows_of,
    single_statement,
)
from hubbub.storage.sql.records import MESSAGE_COLUMNS, from_row
from hubbub.storage.sql.restoring import LIVE
from hubbub.storage.sql.usage import check_term

LOG = "comm:log"
_SCANNED = 10_000
"""How many messages of the log one page of a query examines."""
_NOTHING = Attributes()

_INSERT_INDEX = insert(
    "comm_messages",
    {
        "hub": "text",
        "id": "text",
        "serial": "bigint",
        "at": "bigint",
        "type": "text",
        "subtype": "text",
        "sender": "text",
        "receiver": "text",
        "conversation": "text",
        "digest": "bytea",
        "state": "bigint",
        "plan": "bytea",
    },
    "ON CONFLICT (hub, id) DO NOTHING",
)
_DELIVERY = {
    "hub": "text",
    "key": "text",
    "message_id": "text",
    "serial": "bigint",
    "ordinal": "bigint",
    "receiver": "text",
    "peer": "text",
    "adapter": "text",
    "parameters": "bytea",
    "state": "bigint",
    "reason": "text",
    "at": "bigint",
}
_INSERT_DELIVERIES = insert("comm_deliveries", _DELIVERY, "ON CONFLICT (hub, key) DO NOTHING")
_KEYS = {"of_hub": "text", "of_key": "text"}
_MOVES = {**_KEYS, "next": "bigint", "why": "text", "since": "bigint"}
# Table and column names only; every value is a parameter.
_MOVE = ManyRows(
    table="comm_deliveries",
    single="UPDATE comm_deliveries SET state = $3, reason = $4, at = $5"
    " WHERE hub = $1 AND key = $2",
    arrays="UPDATE comm_deliveries SET state = item.next, reason = item.why, at = item.since"  # noqa: S608
    f" FROM {rows_of(_MOVES)} WHERE hub = item.of_hub AND key = item.of_key",
)
_DROP = ManyRows(
    table="comm_deliveries",
    single="DELETE FROM comm_deliveries WHERE hub = $1 AND key = $2",
    arrays=f"DELETE FROM comm_deliveries USING {rows_of(_KEYS)}"  # noqa: S608
    " WHERE hub = item.of_hub AND key = item.of_key",
)
_DROP_DUE = ManyRows(
    table="comm_deliveries",
    single="DELETE FROM comm_deliveries WHERE hub = $1 AND message_id = $2"  # noqa: S608
    f" AND state IN ({DUE}, {WAITING})",
    arrays=f"DELETE FROM comm_deliveries USING {rows_of(_KEYS)}"  # noqa: S608
    " WHERE hub = item.of_hub AND message_id = item.of_key"
    f" AND state IN ({DUE}, {WAITING})",
)
_PLANS = {**_KEYS, "next": "bytea"}
_PLAN = ManyRows(
    table="comm_messages",
    single=f"UPDATE comm_messages SET state = {PLANNED}, plan = $3"  # noqa: S608
    f" WHERE hub = $1 AND id = $2 AND state <> {DECIDED}",
    arrays=f"UPDATE comm_messages SET state = {PLANNED}, plan = item.next"  # noqa: S608
    f" FROM {rows_of(_PLANS)} WHERE hub = item.of_hub AND id = item.of_key"
    f" AND state <> {DECIDED}",
)
_CLOSE = ManyRows(
    table="comm_messages",
    single=f"UPDATE comm_messages SET state = {DECIDED}, plan = NULL WHERE hub = $1 AND id = $2",  # noqa: S608
    arrays=f"UPDATE comm_messages SET state = {DECIDED}, plan = NULL"  # noqa: S608
    f" FROM {rows_of(_KEYS)} WHERE hub = item.of_hub AND id = item.of_key",
)
_RELEASE = ManyRows(
    table="comm_messages",
    single=f"UPDATE comm_messages SET state = {NEW}"  # noqa: S608
    f" WHERE hub = $1 AND id = $2 AND state = {HELD}",
    arrays=f"UPDATE comm_messages SET state = {NEW}"  # noqa: S608
    f" FROM {rows_of(_KEYS)} WHERE hub = item.of_hub AND id = item.of_key AND state = {HELD}",
)
_LOGGED = (
    f"SELECT {', '.join('messages.' + name for name in MESSAGE_COLUMNS.split(', '))},"  # noqa: S608
    " digest, state, plan"
    " FROM comm_messages JOIN channels ON channels.hub = comm_messages.hub"
    f" AND channels.name = '{LOG}' JOIN messages ON messages.channel_id = channels.id"
    " AND messages.serial = comm_messages.serial"
)
_MESSAGE_FIELDS = MESSAGE_COLUMNS.count(",") + 1
_DELIVERIES = f"SELECT {', '.join(_DELIVERY)} FROM comm_deliveries"  # noqa: S608
_PUT_PEER = put("comm_peers", ("hub", "id", "info"), "hub", "id")
_PUT_COLLECTIVE = put("comm_collectives", ("hub", "id", "policy", "next_after_ms"), "hub", "id")
_PUT_TOKEN = put("comm_tokens", PeerToken.__struct_fields__, "hub", "peer")
_MEMBERS = insert(
    "comm_members", {"hub": "text", "collective": "text", "peer": "text", "position": "bigint"}
)

_encode = msgspec.json.Encoder().encode
_peer = msgspec.json.Decoder(PeerInfo).decode
_parameters = msgspec.json.Decoder(tuple[str, ...]).decode


class StepRows:
    """Collects the rows of steps, to store them with one statement per table."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._index: list[Row] = []
        self._added: list[Row] = []
        self._moved: list[Row] = []
        self._dropped: list[Row] = []
        self._dropped_of: list[Row] = []
        self._planned: list[Row] = []
        self._closed: list[Row] = []
        self._released: list[Row] = []

    def add(self, hub: str, step: CommunicationStep, message: Message | None = None) -> None:
        serial = 0
        if message is not None:
            serial = message.serial
            self._index.append(_index_row(message, step))
        self._added += [_delivery_row(hub, row, serial) for row in step.added]
        self._moved += [(hub, m.key, m.state, m.reason, m.at) for m in step.moved]
        self._dropped += [(hub, key) for key in step.dropped]
        self._dropped_of += [(hub, message_id) for message_id in step.dropped_of]
        self._planned += [(hub, message_id, plan) for message_id, plan in step.planned]
        self._closed += [(hub, message_id) for message_id in step.closed]
        self._released += [(hub, message_id) for message_id in step.released]

    async def store(self) -> None:
        for many, rows in (
            (_INSERT_INDEX, self._index),
            (_INSERT_DELIVERIES, self._added),
            (_MOVE, self._moved),
            (_DROP, self._dropped),
            (_DROP_DUE, self._dropped_of),
            (_PLAN, self._planned),
            (_RELEASE, self._released),
            (_CLOSE, self._closed),
        ):
            if rows:
                await self._sql.execute_many(many, rows)


def _index_row(message: Message, step: CommunicationStep) -> Row:
    attributes = message.attributes or _NOTHING
    return (
        message.hub,
        message.id,
        message.serial,
        message.published_at,
        message.event,
        attributes.subtype or "",
        attributes.sender or "",
        attributes.receiver or "",
        attributes.conversation_id or "",
        step.digest,
        step.state,
        step.plan,
    )


def _delivery_row(hub: str, row: DeliveryRow, serial: int) -> Row:
    return (
        hub,
        row.key,
        row.message_id,
        row.serial or serial,
        row.ordinal,
        row.receiver,
        row.peer,
        row.adapter,
        _encode(row.parameters),
        row.state,
        row.reason,
        row.at,
    )


async def delete_from_log(sql: Sql, hub: str, channel: str, end: int) -> None:
    """Deletes the rows about messages of the log before the serial `end`."""
    if channel == LOG:
        for table in ("comm_messages", "comm_deliveries"):
            await sql.execute(f"DELETE FROM {table} WHERE hub = $1 AND serial < $2", hub, end)  # noqa: S608


async def erase_from_log(
    sql: Sql, hub: str, channel_id: int, peer: str, after: int, end: int
) -> list[int]:
    """Erases a peer from the rows about the log's messages after `after` up to `end`, and deletes
    pending copies to the peer. Returns the serials of messages from or to the peer, and of reports
    that name the peer as an unreached member of a collective."""
    rows = await sql.fetch(
        "SELECT comm_messages.serial, payload, sender, receiver FROM comm_messages"
        " JOIN messages ON channel_id = $2 AND messages.serial = comm_messages.serial"
        " WHERE comm_messages.hub = $1 AND comm_messages.serial > $3"
        " AND comm_messages.serial <= $4 AND (sender = $5 OR receiver = $5 OR type = $6)",
        hub,
        channel_id,
        after,
        end,
        peer,
        CONTROL,
    )
    named = f"{peer}: ".encode()
    found = [
        int(serial)
        for serial, payload, sender, receiver in rows
        if peer in (sender, receiver)
        or (sender.startswith(COLLECTIVE) and bytes(payload).startswith(named))
    ]
    await sql.execute(
        "UPDATE comm_messages SET conversation = '', digest = $4, plan = NULL,"
        " state = $5, sender = CASE WHEN sender = $2 THEN '' ELSE sender END,"
        " receiver = CASE WHEN receiver = $2 THEN '' ELSE receiver END"
        " WHERE hub = $1 AND serial = ANY($3)",
        hub,
        peer,
        found,
        b"",
        DECIDED,
    )
    await sql.execute(
        "DELETE FROM comm_deliveries WHERE hub = $1 AND (peer = $2 OR serial = ANY($3))",
        hub,
        peer,
        found,
    )
    return found


class CommunicationWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def save_step(self, hub: str, step: CommunicationStep, partition: int, term: int) -> None:
        await check_term(self._sql, partition, term)
        rows = StepRows(self._sql)
        rows.add(hub, step)
        await rows.store()
        for entry in step.audits:
            await append_audit(self._sql, entry)

    async def save_peers(self, hub: str, peers: Sequence[tuple[str, PeerInfo]], most: int) -> bool:
        await self._sql.lock("comm_peers")
        known = await self._sql.fetch(
            "SELECT count(*) FROM comm_peers WHERE hub = $1 AND id = ANY($2)",
            hub,
            [peer for peer, _ in peers],
        )
        if await _count(self._sql, "comm_peers", hub) + len(peers) - known[0][0] > most:
            return False
        for peer, info in peers:
            await self._sql.execute(_PUT_PEER, hub, peer, _encode(info))
        return True

    async def delete_peer(self, hub: str, peer: str) -> bool:
        for which in ("comm_members WHERE hub = $1 AND peer = $2",
                      "comm_tokens WHERE hub = $1 AND peer = $2"):  # fmt: skip
            await self._sql.execute(f"DELETE FROM {which}", hub, peer)  # noqa: S608
        statement = "DELETE FROM comm_peers WHERE hub = $1 AND id = $2"
        return await self._sql.execute(statement, hub, peer) > 0

    async def save_collective(
        self, hub: str, collective: str, info: CollectiveInfo, most: int
    ) -> bool:
        await self._sql.lock("comm_collectives")
        others = await self._sql.fetch(
            "SELECT count(*) FROM comm_collectives WHERE hub = $1 AND id <> $2", hub, collective
        )
        if others[0][0] >= most:
            return False
        next_after = None if isinstance(info.next_after_ms, UnsetType) else info.next_after_ms
        await self._sql.execute(_PUT_COLLECTIVE, hub, collective, info.policy, next_after)
        await self._delete_members(hub, collective)
        rows = [(hub, collective, peer, at) for at, peer in enumerate(info.members)]
        await self._sql.execute_many(_MEMBERS, rows)
        return True

    async def _delete_members(self, hub: str, collective: str) -> None:
        await self._sql.execute(
            "DELETE FROM comm_members WHERE hub = $1 AND collective = $2", hub, collective
        )

    async def delete_collective(self, hub: str, collective: str) -> bool:
        await self._delete_members(hub, collective)
        statement = "DELETE FROM comm_collectives WHERE hub = $1 AND id = $2"
        return await self._sql.execute(statement, hub, collective) > 0

    async def add_member(self, hub: str, collective: str, peer: str, most: int) -> bool | None:
        await self._sql.lock("comm_collectives")
        if await _policy_of(self._sql, hub, collective) is None:
            return None
        counted = "SELECT count(*), COALESCE(max(position), 0) FROM comm_members"
        which = "WHERE hub = $1 AND collective = $2"
        ((count, last),) = await self._sql.fetch(f"{counted} {which}", hub, collective)
        known = await self._sql.fetch(
            f"SELECT 1 FROM comm_members {which} AND peer = $3",  # noqa: S608
            hub,
            collective,
            peer,
        )
        if not known and count >= most:
            return False
        if not known:
            await self._sql.execute_many(_MEMBERS, [(hub, collective, peer, last + 1)])
        return True

    async def delete_member(self, hub: str, collective: str, peer: str) -> bool:
        statement = "DELETE FROM comm_members WHERE hub = $1 AND collective = $2 AND peer = $3"
        return await self._sql.execute(statement, hub, collective, peer) > 0

    async def save_peer_token(self, token: PeerToken) -> None:
        await self._sql.execute(_PUT_TOKEN, *msgspec.structs.astuple(token))


async def _count(sql: Sql, table: str, hub: str) -> int:
    rows = await sql.fetch(f"SELECT count(*) FROM {table} WHERE hub = $1", hub)  # noqa: S608
    return int(rows[0][0])


async def _policy_of(sql: Sql, hub: str, collective: str) -> tuple[str, int | None] | None:
    """The policy of a collective and its `next_after_ms`; None if there is no such collective."""
    rows = await sql.fetch(
        "SELECT policy, next_after_ms FROM comm_collectives WHERE hub = $1 AND id = $2",
        hub,
        collective,
    )
    return (rows[0][0], rows[0][1]) if rows else None


def _logged(hub: str, row: Row) -> LoggedMessage:
    digest, state, plan = row[_MESSAGE_FIELDS:]
    message = from_row(row[:_MESSAGE_FIELDS], hub, LOG)
    return LoggedMessage(message, bytes(digest), state, None if plan is None else bytes(plan))


def _delivery(row: Row) -> DeliveryRow:
    _, key, message_id, serial, ordinal, receiver, peer, adapter, parameters, *rest = row
    address = _parameters(bytes(parameters))
    return DeliveryRow(key, message_id, serial, ordinal, receiver, peer, adapter, address, *rest)


class CommunicationReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_logged(self, hub: str, ids: Sequence[str]) -> list[LoggedMessage]:
        which = "WHERE comm_messages.hub = $1 AND comm_messages.id = ANY($2)"
        rows = await self._sql.fetch(
            f"{_LOGGED} {which} ORDER BY comm_messages.serial", hub, list(ids)
        )
        return [_logged(hub, row) for row in rows]

    @single_statement
    async def read_open(self, hub: str, after: int, limit: int) -> list[LoggedMessage]:
        which = "WHERE comm_messages.hub = $1 AND state > 0 AND comm_messages.serial > $2"
        rows = await self._sql.fetch(
            f"{_LOGGED} {which} ORDER BY comm_messages.serial LIMIT $3", hub, after, limit
        )
        return [_logged(hub, row) for row in rows]

    @single_statement
    async def read_deliveries(
        self, hub: str, state: int, after: tuple[int, int], limit: int
    ) -> list[DeliveryRow]:
        which = "WHERE hub = $1 AND state = $2 AND (serial, ordinal) > ($3, $4)"
        rows = await self._sql.fetch(
            f"{_DELIVERIES} {which} ORDER BY serial, ordinal LIMIT $5", hub, state, *after, limit
        )
        return list(map(_delivery, rows))

    @single_statement
    async def read_deliveries_of(self, hub: str, keys: Sequence[str]) -> list[DeliveryRow]:
        which = "WHERE hub = $1 AND key = ANY($2) ORDER BY serial, ordinal"
        return list(
            map(_delivery, await self._sql.fetch(f"{_DELIVERIES} {which}", hub, list(keys)))
        )

    @single_statement
    async def read_busy_hubs(self) -> list[str]:
        rows = await self._sql.fetch(
            f"SELECT hub FROM comm_messages WHERE state > 0 AND {LIVE}"  # noqa: S608
            f" UNION SELECT hub FROM comm_deliveries WHERE state = $1 AND {LIVE}",
            DUE,
        )
        return sorted(hub for (hub,) in rows)

    async def query_log(self, query: LogQuery, before: int | None, limit: int) -> LogPage:
        ((newest,),) = await self._sql.fetch(
            "SELECT COALESCE(max(serial), 0) FROM comm_messages WHERE hub = $1", query.hub
        )
        start = newest + 1 if before is None else before
        end = max(1, start - _SCANNED)
        wanted = ["comm_messages.serial < $2", "comm_messages.serial >= $3"]
        values: list[object] = [start, end]
        for column in ("id", "type", "subtype", "sender", "receiver", "conversation"):
            if text := getattr(query, column):
                values.append(text)
                wanted.append(f"comm_messages.{column} = ${len(values) + 1}")
        for operator, time in ((">=", query.since), ("<=", query.until)):
            if time is not None:
                values.append(time)
                wanted.append(f"comm_messages.at {operator} ${len(values) + 1}")
        which = f"WHERE comm_messages.hub = $1 AND {' AND '.join(wanted)}"
        values.append(limit)
        order = f"ORDER BY comm_messages.serial DESC LIMIT ${len(values) + 1}"
        rows = await self._sql.fetch(f"{_LOGGED} {which} {order}", query.hub, *values)
        found = tuple(_logged(query.hub, row) for row in rows)
        following = found[-1].message.serial if len(found) == limit else end
        return LogPage(found, following if following > 1 else None)

    @single_statement
    async def count_correspondence(self, hub: str, peer: str) -> int:
        """Counts messages from and to a peer, and copies for the peer."""
        ((count,),) = await self._sql.fetch(
            "SELECT (SELECT count(*) FROM comm_messages"
            " WHERE hub = $1 AND (sender = $2 OR receiver = $2))"
            " + (SELECT count(*) FROM comm_deliveries WHERE hub = $1 AND peer = $2)",
            hub,
            peer,
        )
        return int(count)

    @single_statement
    async def read_peers(self, hub: str, ids: Sequence[str]) -> list[tuple[str, PeerInfo]]:
        which = "WHERE hub = $1 AND id = ANY($2) ORDER BY id"
        rows = await self._sql.fetch(f"SELECT id, info FROM comm_peers {which}", hub, list(ids))  # noqa: S608
        return [(peer, _peer(info)) for peer, info in rows]

    @single_statement
    async def list_peers(self, hub: str, after: str, limit: int) -> list[tuple[str, PeerInfo]]:
        which = "WHERE hub = $1 AND id > $2 ORDER BY id LIMIT $3"
        rows = await self._sql.fetch(f"SELECT id, info FROM comm_peers {which}", hub, after, limit)  # noqa: S608
        return [(peer, _peer(info)) for peer, info in rows]

    async def read_collective(self, hub: str, collective: str) -> CollectiveInfo | None:
        found = await _policy_of(self._sql, hub, collective)
        if found is None:
            return None
        policy, next_after = found
        rows = await self._sql.fetch(
            "SELECT peer FROM comm_members WHERE hub = $1 AND collective = $2"
            " ORDER BY position, peer",
            hub,
            collective,
        )
        members = tuple(peer for (peer,) in rows)
        more = {} if next_after is None else {"nextAfterMs": next_after}
        return msgspec.convert({"members": members, "policy": policy, **more}, CollectiveInfo)

    @single_statement
    async def list_collectives(self, hub: str, after: str, limit: int) -> list[tuple[str, str]]:
        rows = await self._sql.fetch(
            "SELECT id, policy FROM comm_collectives WHERE hub = $1 AND id > $2"
            " ORDER BY id LIMIT $3",
            hub,
            after,
            limit,
        )
        return [(name, policy) for name, policy in rows]

    @single_statement
    async def read_peer_token(self, hub: str, peer: str) -> PeerToken | None:
        rows = await self._sql.fetch(
            "SELECT token_hash, expires_at FROM comm_tokens WHERE hub = $1 AND peer = $2", hub, peer
        )
        return PeerToken(hub, peer, bytes(rows[0][0]), rows[0][1]) if rows else None
