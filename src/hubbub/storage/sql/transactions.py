"""Running operations in order in one transaction, where one that is at fault fails alone."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from hubbub.domain.errors import HubbubError, Internal
from hubbub.ports.storage.messages import Append
from hubbub.storage.sql.appending import RefusedAppend
from hubbub.storage.sql.connection import Sql
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.writes import Writes

_log = logging.getLogger(__name__)
_SAVE, _RELEASE, _UNDO = "SAVEPOINT apart", "RELEASE SAVEPOINT apart", "ROLLBACK TO apart"


class StoreCall(NamedTuple):
    """A method of `Writes` or `Reads`, by name."""

    method: str
    arguments: Sequence[Any]


class Connection(Sql, Protocol):
    """A connection that can run transactions."""

    async def begin(self) -> None: ...

    async def settle(self) -> None:
        """Have everything done that was put off."""

    async def commit(self) -> None: ...

    async def roll_back(self) -> None:
        """Does nothing where there is no transaction, or no connection any more."""

    def concerns_all(self, error: Exception) -> bool:
        """A lost connection, a full disk: not the fault of one operation."""

    def describe(self, error: Exception) -> HubbubError | None:
        """The driver's exception as an error of the store; None for other exceptions."""


Result = Any
"""The return value of the method, or a `HubbubError`."""


class Transactions:
    def __init__(self, connection: Connection, target: Writes | Reads) -> None:
        self._connection = connection
        self._target = target

    async def run(
        self,
        calls: Sequence[StoreCall],
        before_commit: Callable[[Sequence[Result]], Awaitable[None]] | None = None,
    ) -> Sequence[Result]:
        """Raises what concerns all of them (see `Connection`); nothing took effect then, unless
        the connection was lost during `commit`."""
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
        try:
            return await getattr(self._target, call.method)(*call.arguments)
        except HubbubError as error:
            return error

    async def _run_apart(self, call: StoreCall) -> Result:
        """Some operation is at fault: let it fail without the others."""
        if call.method == Writes.append.__name__:
            (appends,) = call.arguments
            return await self._append_apart(appends, 0)
        return await self._try(call)

    async def _append_apart(self, appends: Sequence[Append], start: int) -> list[RefusedAppend]:
        """By halving, since most of them are sound."""
        answer = await self._try(StoreCall(Writes.append.__name__, (appends,)))
        if not isinstance(answer, HubbubError):
            return [RefusedAppend(start + item.index, item.code, item.message) for item in answer]
        if len(appends) == 1:
            return [RefusedAppend(start, answer.code, answer.message)]
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


def explain(connection: Connection, error: Exception) -> HubbubError:
    """Any failure as an error of the hub's own."""
    if isinstance(error, HubbubError):
        return error
    described = connection.describe(error)
    if described is not None:
        return described
    _log.error("an operation failed on the database", exc_info=error)
    return Internal(f"the database cannot take this: {error!r}")
