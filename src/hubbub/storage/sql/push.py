"""SQL for devices, followings and push credentials."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.permissions import Reader
from hubbub.domain.push.tokens import UNREFRESHED_MS, PushToken
from hubbub.ports.storage.push import PushCredential, PushFollowing
from hubbub.storage.sql.connection import ManyRows, Row, Sql, put, single_statement

_TOKEN_COLUMNS = PushToken.__struct_fields__
_PUT_TOKEN = put("push_tokens", (*_TOKEN_COLUMNS, "due_at"), "hub", "platform", "token")
_READ_TOKENS = f"SELECT {', '.join(_TOKEN_COLUMNS)} FROM push_tokens"  # noqa: S608
_NOTE_RESULT = ManyRows(
    table="push_tokens",
    single="UPDATE push_tokens SET succeeded_at = $5, failures = $6, failing_since = $7"
    " WHERE hub = $1 AND platform = $2 AND token = $3 AND registered_at = $4",
    arrays="UPDATE push_tokens SET succeeded_at = item.succeeded, failures = item.failed,"
    " failing_since = item.since FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[],"
    " $5::bigint[], $6::bigint[], $7::bigint[])"
    " AS item (of_hub, of_platform, of_token, registered, succeeded, failed, since)"
    " WHERE hub = item.of_hub AND platform = item.of_platform AND token = item.of_token"
    " AND registered_at = item.registered",
)
_FOLLOWING_COLUMNS = PushFollowing.__struct_fields__
_PUT_FOLLOWING = put("push_followings", _FOLLOWING_COLUMNS, "hub", "channel", "user_id")
_READ_FOLLOWINGS = f"SELECT {', '.join(_FOLLOWING_COLUMNS)} FROM push_followings"  # noqa: S608
_CREDENTIAL_COLUMNS = PushCredential.__struct_fields__
_PUT_CREDENTIAL = put("push_credentials", _CREDENTIAL_COLUMNS, "hub", "name")
_READ_CREDENTIALS = f"SELECT {', '.join(_CREDENTIAL_COLUMNS)} FROM push_credentials"  # noqa: S608

_encoder = msgspec.msgpack.Encoder()
_acting = msgspec.msgpack.Decoder(Reader)


def _due_at(token: PushToken) -> int:
    """When the token expires."""
    unrefreshed = token.registered_at + UNREFRESHED_MS
    return unrefreshed if token.expires_at is None else min(unrefreshed, token.expires_at)


def _following(row: Row) -> PushFollowing:
    hub, channel, user_id, acting, created_at = row
    return PushFollowing(hub, channel, user_id, _acting.decode(acting), created_at)


class PushWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def save_push_token(self, token: PushToken) -> None:
        await self._sql.execute(_PUT_TOKEN, *msgspec.structs.astuple(token), _due_at(token))

    async def delete_push_token(
        self, hub: str, platform: str, token: str, registered_until: int | None = None
    ) -> bool:
        until = 2**62 if registered_until is None else registered_until
        which = "hub = $1 AND platform = $2 AND token = $3 AND registered_at <= $4"
        statement = f"DELETE FROM push_tokens WHERE {which}"  # noqa: S608
        return await self._sql.execute(statement, hub, platform, token, until) > 0

    async def note_push_results(self, hub: str, tokens: Sequence[PushToken]) -> None:
        rows = {
            (each.platform, each.token): (
                hub, each.platform, each.token, each.registered_at, each.succeeded_at,
                each.failures, each.failing_since,
            )
            for each in tokens
        }  # fmt: skip
        await self._sql.execute_many(_NOTE_RESULT, [rows[key] for key in sorted(rows)])

    async def save_following(self, following: PushFollowing, most: int) -> bool:
        await self._sql.lock("push_followings")
        hub, channel, user_id = following.hub, following.channel, following.user_id
        which = "hub = $1 AND user_id = $2 AND channel <> $3"
        others = f"SELECT count(*) FROM push_followings WHERE {which}"  # noqa: S608
        (row,) = await self._sql.fetch(others, hub, user_id, channel)
        if row[0] >= most:
            return False
        await self._sql.execute(
            _PUT_FOLLOWING,
            hub,
            channel,
            user_id,
            _encoder.encode(following.acting),
            following.created_at,
        )
        return True

    async def delete_following(self, hub: str, channel: str, user_id: str) -> bool:
        which = "hub = $1 AND channel = $2 AND user_id = $3"
        statement = f"DELETE FROM push_followings WHERE {which}"  # noqa: S608
        return await self._sql.execute(statement, hub, channel, user_id) > 0

    async def delete_followings_of(self, hub: str, user_id: str) -> int:
        return await self._sql.execute(
            "DELETE FROM push_followings WHERE hub = $1 AND user_id = $2", hub, user_id
        )

    async def put_push_credential(self, credential: PushCredential) -> None:
        await self._sql.execute(_PUT_CREDENTIAL, *msgspec.structs.astuple(credential))

    async def add_first_credential(self, credential: PushCredential, prefix: str) -> bool:
        await self._sql.lock("push_credentials")
        found = await self._sql.fetch(
            "SELECT name FROM push_credentials WHERE hub = $1", credential.hub
        )
        if any(name.startswith(prefix) for (name,) in found):
            return False
        await self.put_push_credential(credential)
        return True

    async def delete_push_credential(self, hub: str, name: str) -> bool:
        statement = "DELETE FROM push_credentials WHERE hub = $1 AND name = $2"
        return await self._sql.execute(statement, hub, name) > 0


class PushReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_push_tokens(self, hub: str, users: Sequence[str]) -> list[PushToken]:
        which = "WHERE hub = $1 AND user_id = ANY($2) ORDER BY user_id, platform, token"
        rows = await self._sql.fetch(f"{_READ_TOKENS} {which}", hub, list(users))
        return [PushToken(*row) for row in rows]

    @single_statement
    async def read_followings(
        self, hub: str, channel: str, after_user: str, limit: int
    ) -> list[PushFollowing]:
        which = "WHERE hub = $1 AND channel = $2 AND user_id > $3 ORDER BY user_id LIMIT $4"
        rows = await self._sql.fetch(f"{_READ_FOLLOWINGS} {which}", hub, channel, after_user, limit)
        return [_following(row) for row in rows]

    @single_statement
    async def read_followings_of(self, hub: str, users: Sequence[str]) -> list[PushFollowing]:
        which = "WHERE hub = $1 AND user_id = ANY($2) ORDER BY user_id, channel"
        rows = await self._sql.fetch(f"{_READ_FOLLOWINGS} {which}", hub, list(users))
        return [_following(row) for row in rows]

    @single_statement
    async def list_followings(
        self, hub: str, after: tuple[str, str], limit: int
    ) -> list[PushFollowing]:
        which = "WHERE hub = $1 AND (channel, user_id) > ($2, $3)"
        order = "ORDER BY channel, user_id LIMIT $4"
        rows = await self._sql.fetch(f"{_READ_FOLLOWINGS} {which} {order}", hub, *after, limit)
        return [_following(row) for row in rows]

    @single_statement
    async def read_push_credentials(self, hub: str | None = None) -> list[PushCredential]:
        order = "ORDER BY hub, created_at DESC, name"
        if hub is None:
            rows = await self._sql.fetch(f"{_READ_CREDENTIALS} {order}")
        else:
            rows = await self._sql.fetch(f"{_READ_CREDENTIALS} WHERE hub = $1 {order}", hub)
        return [PushCredential(row[0], row[1], bytes(row[2]), *row[3:]) for row in rows]
