"""Kinds of journal events about documents."""

from __future__ import annotations

from typing import Final

DOCUMENT_CHANGED: Final = "document.changed"
"""A document was changed: `serial` is the new version, `message_id` the id of the change, `size`
the bytes of its operations, `extra.documentBytes` the size of the document."""

KINDS: Final = (DOCUMENT_CHANGED,)
