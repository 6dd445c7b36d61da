"""Changes of documents as requests to their owners, and checks of requests about documents."""

from __future__ import annotations

from hubbub.domain.asking import OrderedRequest, OwnerRequest
from hubbub.domain.documents.changes import MAX_CHANGE_ID_CHARS, ChangeOptions, ChangeOutcome
from hubbub.domain.documents.operations import check_request_bytes
from hubbub.domain.documents.values import DocumentLimits
from hubbub.domain.errors import BadRequest, WrongChannelKind
from hubbub.domain.messages import Message
from hubbub.domain.names import is_document
from hubbub.domain.topics import FoundPut


class ApplyChange(OrderedRequest[ChangeOutcome], frozen=True, tag="apply_change"):
    """Changes the document of a channel. The payload of the envelope is the patch."""

    travels_in = None

    options: ChangeOptions

    def search(self) -> FindChange:
        return FindChange(self.message, self.options)


class FindChange(OwnerRequest[FoundPut | None], frozen=True, tag="find_change"):
    """Asks whether this change, which carries a stamp, would be a repeat."""

    travels_in = None

    message: Message
    options: ChangeOptions

    @property
    def place(self) -> tuple[str, str]:
        return self.message.hub, self.message.channel


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
