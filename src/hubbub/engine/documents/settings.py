"""The category `document` of the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.documents.values import DocumentLimits

CATEGORY = "document"


class DocumentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Documents of channels `doc:…`, and changes to them; larger ones fail with `too_large`."""

    max_bytes: Annotated[int, Meta(ge=2, le=16 * 1024 * 1024)] = 1024 * 1024
    """Maximum size of a document as JSON, with bytes in it at their own length."""
    max_change_bytes: Annotated[int, Meta(ge=2, le=16 * 1024 * 1024)] = 256 * 1024
    """Maximum size of one change; over WebSocket `connection.ws.maxMessageBytes` applies as
    well."""
    max_operations: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Maximum number of operations in one change."""
    max_depth: Annotated[int, Meta(ge=1, le=60)] = 60
    """Nesting depth of lists and objects; protobuf readers stop soon after 60."""
    max_name_bytes: Annotated[int, Meta(ge=1, le=64 * 1024)] = 1024
    """Maximum size of a member's name, in UTF-8."""
    memory_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 32 * 1024 * 1024
    """Bytes of documents in a node's memory, as JSON; beyond that, unused documents are unloaded,
    and read again on demand."""

    @property
    def limits(self) -> DocumentLimits:
        return DocumentLimits(
            document_bytes=self.max_bytes,
            request_bytes=self.max_change_bytes,
            operations=self.max_operations,
            depth=self.max_depth,
            name_bytes=self.max_name_bytes,
        )


SETTINGS = DocumentSettings
