"""Administration of documents."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from hubbub.domain.documents.changes import (
    ChangeOptions,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
)
from hubbub.domain.errors import HistoryGone, NotFound
from hubbub.domain.requests import Producer
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.versions import ANY_VERSION, Condition
from hubbub.engine.documents.service import Changed, Documents
from hubbub.engine.node import Node
from hubbub.ports.storage.documents import DocumentStore, ListedDocument

_NO_VERSION = -1
"""A version that no document has."""
Action = Literal["replace", "patch", "delete", "restore"]


class DocumentAdministration:
    """Raises the errors of `engine.documents.service`, and `HubNotFound`."""

    def __init__(self, node: Node, store: DocumentStore, audit: AuditLog) -> None:
        self._node = node
        self._documents = node.feature(Documents)
        self._store = store
        self._audit = audit

    async def page(
        self, hub: str, limit: int, after: str = "", prefix: str = ""
    ) -> list[ListedDocument]:
        """Documents as stored, ordered by the names of their channels, after `after`."""
        self._node.directory.get(hub)
        return await self._store.read_documents(hub, after, limit, prefix)

    async def get(self, actor: Actor, query: DocumentQuery) -> DocumentAnswer:
        return await self._documents.get(self._node.hub(query.hub), actor.identity, query)

    async def change(
        self,
        actor: Actor,
        hub: str,
        channel: str,
        action: Action,
        patch: bytes,
        options: ChangeOptions,
        producer: Producer | None = None,
        technology: str | None = None,
    ) -> Changed:
        """Changes the document. The owner stores the audit entry with the change."""
        audit = self._audit.entry(actor, f"document.{action}", hub, channel)
        options = replace(options, audit=audit)
        changed = await self._documents.settle(
            self._node.hub(hub), actor.identity, channel, patch, options, producer, technology
        )
        outcome = changed.outcome
        if not changed.duplicate and outcome.timestamp >= audit.at:  # else nothing changed
            about = {"epoch": outcome.epoch, "version": outcome.version}
            await self._audit.ensure(replace(audit, after=msgspec.json.encode(about)))
        return changed

    async def options(
        self, actor: Actor, hub: str, channel: str, condition: Condition, epoch: str | None = None
    ) -> ChangeOptions:
        """Translates a request's condition into options of a change, within an epoch if one is
        given."""
        versions = condition.versions
        expected = 0 if condition.absent else None
        if versions is not None:
            if len(versions) > 1:
                versions &= {(await self._state(actor, hub, channel)).version}
            expected = _NO_VERSION if condition.absent else next(iter(versions), _NO_VERSION)
        return ChangeOptions(expected_version=expected, must_exist=condition.exists, epoch=epoch)

    async def restore(
        self,
        actor: Actor,
        hub: str,
        channel: str,
        version: int,
        condition: Condition = ANY_VERSION,
        epoch: str | None = None,
        technology: str | None = None,
    ) -> Changed:
        """Restores the document's value at a version, as a new change. Raises `HistoryGone`, and
        `VersionMismatch` if the document was recreated since that epoch."""
        query = DocumentQuery(hub, channel, epoch=epoch, at=version)
        found = await self.get(actor, query)
        if found.document is None:
            raise HistoryGone(f"version {version} of the document {channel!r} is not kept any more")
        patch = b'[{"op":"replace","path":"","value":%b}]' % found.document
        options = await self.options(actor, hub, channel, condition, found.state.epoch)
        return await self.change(
            actor, hub, channel, "restore", patch, replace(options, from_hub=True), None, technology
        )

    async def delete(
        self,
        actor: Actor,
        hub: str,
        channel: str,
        condition: Condition = ANY_VERSION,
        technology: str | None = None,
    ) -> None:
        """Raises `NotFound` if there is no document."""
        before = await self._state(actor, hub, channel)
        if not before.version and not condition.is_given:
            raise NotFound(f"the document {channel!r} was never written, or is deleted")
        options = await self.options(actor, hub, channel, condition)
        await self.change(
            actor, hub, channel, "delete", b"", replace(options, kind="delete"), None, technology
        )

    async def _state(self, actor: Actor, hub: str, channel: str) -> DocumentState:
        newest_change = DocumentQuery(hub, channel, before=2**53, limit=1)
        return (await self.get(actor, newest_change)).state
