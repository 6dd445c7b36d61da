"""Maps failures of a PostgreSQL server to errors of the store, with remedies for operators."""

from __future__ import annotations

import socket
import ssl

import asyncpg

from hubbub.domain.errors import (
    STORE_AWAY,
    STORE_FULL,
    Conflict,
    HubbubError,
    StoreUnavailable,
)
from hubbub.storage.sql.transactions import ROW_REFUSED

_REACH = "check that it runs, and storage.postgres.host and port"

# By SQLSTATE, or by its class (the first two characters).
_REMEDIES = {
    "28": "refuses this user: check storage.postgres.user and password, and the server's"
    " pg_hba.conf",
    "3D000": "does not exist: create it (createdb), or correct storage.postgres.dbName",
    "3F000": "has no schema to put tables in: create one, or set the user's search_path",
    "42501": "does not allow this: let the user create and use tables in its schema",
    "42P01": "lacks tables of the hub: was the schema dropped, or the search_path changed?"
    " restart the hub to create them",
    "25006": "is read-only: point storage.postgres.host at the primary server",
    "53300": "has no connection left: raise max_connections there, or lower sql.maxConnections",
    "53100": "is full: free disk space there, or shorten retention",
    "53": "is short of resources: check the server's memory and limits",
    "55P03": "was locked by another transaction for too long: look for it in pg_stat_activity",
    "57014": "took too long over a statement: look for the cause in the server's log, or raise"
    " storage.postgres.statementTimeout",
    "57P03": "is starting or stopping: it should be back soon",
    "57": "ended the connection: it was stopped, or an operator did that",
    "40": "had to undo this in favour of another transaction",
    "58": "failed to read or write: check the server's disk and log",
    "XX": "is damaged or failed: check the server's log",
    "08": f"was lost in the middle of this: {_REACH}",
}
_ONE_OPERATION = ("22", "23", "54")
_UNDONE = ("40", "23")
_OF_THE_CONNECTION = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def describe(error: Exception, address: str) -> HubbubError | None:
    """Names the failure, the database and a remedy, in place of the driver's exception. None if the
    error is about the input, not the database."""
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return Conflict(ROW_REFUSED, f"the database {address} refused a row ({_first_line(error)})")
    if is_about_one_operation(error):
        return None
    remedy = _remedy(error)
    if remedy is None:
        return None
    told = STORE_FULL if isinstance(error, asyncpg.DiskFullError) else STORE_AWAY
    return StoreUnavailable(told, f"the database {address} {remedy} ({_first_line(error)})")


def is_about_one_operation(error: Exception) -> bool:
    """Whether the database rejects a value: other operations in the transaction are not at
    fault."""
    if isinstance(error, asyncpg.PostgresError):
        return _sqlstate(error).startswith(_ONE_OPERATION)
    if isinstance(error, OSError):  # some of these are ValueErrors too
        return False
    return isinstance(error, ValueError) or not isinstance(error, _OF_THE_CONNECTION)


def is_broken(error: Exception) -> bool:
    """Whether the connection is unusable, even if the driver has not closed it yet."""
    if isinstance(error, asyncpg.PostgresError):
        return _sqlstate(error).startswith(("08", "57P", "25P03"))
    return isinstance(error, _OF_THE_CONNECTION) and not is_about_one_operation(error)


def is_worth_repeating(error: Exception) -> bool:
    """Whether a retry may succeed: the transaction was aborted in favour of another, or its plan is
    outdated by a schema change."""
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return True
    return isinstance(error, asyncpg.PostgresError) and _sqlstate(error).startswith("40")


def is_surely_undone(error: Exception) -> bool:
    """After a failed commit: whether the server rejected it. After any other error, the commit may
    have happened."""
    return isinstance(error, asyncpg.PostgresError) and _sqlstate(error).startswith(_UNDONE)


def is_read_only(error: Exception) -> bool:
    """Whether the server has become a standby, and the primary is elsewhere."""
    return isinstance(error, asyncpg.PostgresError) and _sqlstate(error) == "25006"


def _sqlstate(error: asyncpg.PostgresError) -> str:
    return str(error.sqlstate or "")


def _remedy(error: Exception) -> str | None:
    if isinstance(error, asyncpg.PostgresError):
        code = _sqlstate(error)
        return _REMEDIES.get(code) or _REMEDIES.get(code[:2], "failed")
    if isinstance(error, ssl.SSLError):
        return (
            "cannot be trusted: check storage.postgres.sslRootCert, and that the certificate is"
            " for this host"
        )
    if isinstance(error, socket.gaierror):
        return "cannot be found: check storage.postgres.host and the name service"
    if isinstance(error, ConnectionError) and "SSL" in str(error):
        return "does not encrypt: configure TLS there, or set storage.postgres.sslMode to disable"
    if isinstance(error, TimeoutError):
        return f"did not answer in time: {_REACH}"
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return _REMEDIES["25006"]
    if isinstance(error, _OF_THE_CONNECTION):
        return f"cannot be reached: {_REACH}"
    return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
