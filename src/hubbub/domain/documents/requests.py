"""What is checked of a request about a document, whichever way it comes in."""

from __future__ import annotations

from hubbub.domain.documents.changes import MAX_CHANGE_ID_CHARS, ChangeOptions
from hubbub.domain.documents.operations import check_request_bytes
from hubbub.domain.documents.values import DocumentLimits
from hubbub.domain.errors import BadRequest, WrongChannelKind
from hubbub.domain.names import is_document


def check_kind(channel: str) -> None:
    """Raises `WrongChannelKind`."""
    if not is_document(channel):
        raise WrongChannelKind(
            f"{channel!r} has no document; names of channels with one begin with `doc:`"
        )


def check_change(
    channel: str, patch: bytes, options: ChangeOptions, limits: DocumentLimits
) -> None:
    """Raises `WrongChannelKind`, `TooLarge` and `BadRequest`."""
    check_kind(channel)
    if not options.from_hub:
        check_request_bytes(patch, limits)
    if len(options.change_id) > MAX_CHANGE_ID_CHARS:
        raise BadRequest(
            f"`changeID` has {len(options.change_id)} characters; at most {MAX_CHANGE_ID_CHARS} "
            "are allowed"
        )
