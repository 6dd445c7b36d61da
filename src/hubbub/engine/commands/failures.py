"""Maps errors of the hub to the status of a command."""

from __future__ import annotations

from typing import Final

from hubbub.domain.commands.status import Status
from hubbub.domain.errors import (
    BadRequest,
    Denied,
    HubbubError,
    IncompleteFilter,
    InvalidToken,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    ValidationFailed,
)

_STATUSES: Final[tuple[tuple[type[HubbubError], Status], ...]] = (
    (NotPermitted, Status.NOT_AUTHORIZED),
    (NotAuthenticated, Status.NOT_AUTHORIZED),
    (InvalidToken, Status.NOT_AUTHORIZED),
    (Denied, Status.NOT_AUTHORIZED),
    (IncompleteFilter, Status.MISSING),
    (NotFound, Status.NOT_AVAILABLE),
    (BadRequest, Status.INVALID),
)
"""All other errors are technical errors."""


def status_of(error: HubbubError) -> int:
    if isinstance(error, ValidationFailed):
        return error.status
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return Status.TECHNICAL
