"""Runs operations in order in one transaction; an operation at fault fails alone."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, get_type_hints

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import HubbubError, Internal, over_quota
from hubbub.ports.storage.messages import Append
from hubbub.storage.sql.appending import RefusedAppend
from hubbub.storage.sql.connection import Sql
from hubbub.storage.sql.fair_queue import Bound
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.usage import used_bytes
from hubbub.storage.sql.writes import Writes

_log = logging.getLogger(__name__)
ROW_REFUSED = "this does not fit what is stored already"
_SAVE, _RELEASE, _UNDO = "SAVEPOINT apart", "RELEASE SAVEPOINT apart", "ROLLBACK TO apart"


class StoreCall(NamedTuple):
    """A method of `Writes` or `Reads`, by name."""

    method: str
    arguments: Sequence[Any]
    bound: Bound | None = None
    audit: AuditEntry | None = None
    """Stored with what the method changes."""


class TransactionalSql(Sql, Protocol):
    """A connection that can run transactions."""

    async def begin(self) -> None: ...

    async def settle(self) -> None:
        """Executes all deferred statements."""

    async def commit(self) -> None: ...

    async def roll_back(self) -> None:
        """Does nothing without a transaction, or without a connection."""

    def concerns_all(self, error: Exception) -> bool:
        """Whether the error affects the whole transaction, such as a lost connection or a full
        disk."""

    def describe(self, error: Exception) -> HubbubError | None:
        """Converts the driver's exception to an error of the store; None for other exceptions."""


Result = Any
"""The method's return value, or a `HubbubError`."""


class Transactions:
    def __init__(self, connection: TransactionalSql, target: Writes | Reads) -> None:
        self._connection = connection
        self._target = target

    async def run(
        self,
        calls: Sequence[StoreCall],
        before_commit: Callable[[Sequence[Result]], Awaitable[None]] | None = None,
    ) -> Sequence[Result]:
        """Raises errors that affect the whole transaction (see `TransactionalSql`); it had no
        effect then, unless the connection was lost during `commit`."""
        try:
            return await self._run(calls, self._run_one, before_commit)
        except Exception as error:
            await self._connection.roll_back()
            if self._connection.concerns_all(error):
                raise
        try:
            return await self._run(calls, self._run_apart, before_commit)
        except Exception:
            await self._connection.roll_back()
            raise

    async def _run(
        self,
        calls: Sequence[StoreCall],
        run: Callable[[StoreCall], Awaitable[Result]],
        before_commit: Callable[[Sequence[Result]], Awaitable[None]] | None,
    ) -> Sequence[Result]:
        await self._connection.begin()
        results = [await run(call) for call in calls]
        if before_commit is not None:
            await before_commit(results)
        await self._connection.commit()
        return results

    async def _run_one(self, call: StoreCall) -> Result:
        if call.bound is not None:
            return await self._run_bounded(call, call.bound)
        method = getattr(self._target, call.method)
        try:
            result = await method(*call.arguments)
        except HubbubError as error:
            return error
        if call.audit is not None and (result or _answers_nothing(method.__func__)):
            assert isinstance(self._target, Writes)
            await self._target.append_audit(call.audit)
        return result

    async def _run_bounded(self, call: StoreCall, bound: Bound) -> Result:
        """A hub over its quota keeps its data and may shrink."""
        before = await used_bytes(self._connection, bound.hub)
        await self._connection.execute("SAVEPOINT bounded")
        result = await self._run_one(call._replace(bound=None))
        await self._connection.settle()
        if await used_bytes(self._connection, bound.hub) > max(before, bound.most):
            await self._connection.execute("ROLLBACK TO bounded")
            result = over_quota(bound.hub, bound.most)
        await self._connection.execute("RELEASE SAVEPOINT bounded")
        return result

    async def _run_apart(self, call: StoreCall) -> Result:
        """Retries one by one, so that only the operation at fault fails."""
        if call.method == Writes.append.__name__:
            (appends,) = call.arguments
            return await self._append_apart(appends, 0)
        return await self._try(call)

    async def _append_apart(self, appends: Sequence[Append], start: int) -> list[RefusedAppend]:
        """Splits recursively by halves, since most appends are valid."""
        answer = await self._try(StoreCall(Writes.append.__name__, (appends,)))
        if not isinstance(answer, HubbubError):
            return [
                RefusedAppend(start + item.index, item.code, item.message, item.detail)
                for item in answer
            ]
        if len(appends) == 1:
            return [RefusedAppend(start, answer.code, answer.message, answer.detail)]
        middle = len(appends) // 2
        first = await self._append_apart(appends[:middle], start)
        return first + await self._append_apart(appends[middle:], start + middle)

    async def _try(self, call: StoreCall) -> Result:
        await self._connection.execute(_SAVE)
        try:
            result = await self._run_one(call)
            await self._connection.settle()
        except Exception as error:
            if self._connection.concerns_all(error):
                raise
            await self._connection.execute(_UNDO)
            result = explain(self._connection, error)
        await self._connection.execute(_RELEASE)
        return result


@cache
def _answers_nothing(method: Callable[..., Any]) -> bool:
    """Whether the method returns nothing because it always changes something; others return a false
    value if they changed nothing."""
    return get_type_hints(method)["return"] is type(None)


def explain(connection: TransactionalSql, error: Exception) -> HubbubError:
    """Converts any failure to a `HubbubError`."""
    if isinstance(error, HubbubError):
        return error
    described = connection.describe(error)
    if described is not None:
        return described
    _log.error("an operation failed on the database", exc_info=error)
    return Internal("the store cannot take this", f"the database cannot take this: {error!r}")
