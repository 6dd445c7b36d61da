"""Applies or refuses changes to documents at the owner of their channels, in the channel's queue.

Changes that were queued during an append are applied one after another and stored together. A
refusal is sent only when the state that it was judged against is stored; after a failed append the
document is loaded again, and refused changes are judged again."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.domain.documents.changes import (
    ChangeOptions,
    ChangeOutcome,
    DocumentAdvanced,
    DocumentState,
    DocumentUpdate,
    digest_of,
)
from hubbub.domain.documents.operations import (
    Operation,
    merge_operations,
    read_merge_patch_steps,
    read_patch,
    read_patch_steps,
)
from hubbub.domain.documents.requests import ApplyChange
from hubbub.domain.documents.steps import Steps
from hubbub.domain.documents.values import NO_LIMITS, DocumentLimits
from hubbub.domain.errors import HubbubError, VersionMismatch
from hubbub.domain.messages import JSON, Message
from hubbub.domain.topics import FoundPut
from hubbub.engine.channels.announcements import Announcements
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.producers import sequence_reused
from hubbub.engine.channels.rooms import OrderedHandler, PreparedWrite
from hubbub.engine.documents.journal import DocumentEvents
from hubbub.engine.documents.reader import document_of, outlived, update_of
from hubbub.engine.documents.state import ChannelDocument
from hubbub.ports import randomness
from hubbub.ports.bus import PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.storage.documents import ChangeAppend, DocumentStore, StoredChange
from hubbub.ports.storage.messages import Append


class Judged(PreparedWrite):
    """A change that was applied to the document in memory. `state` is the document's afterwards."""

    def __init__(
        self,
        state: DocumentState,
        append: ChangeAppend | None = None,
        update: DocumentUpdate | None = None,
        message: Message | None = None,
        numbered: bool = False,
    ) -> None:
        """`message` is stored with `append`. A numbered one tells of the change."""
        self.state = state
        self.append = append
        self.update = update
        self.message = message
        self.numbered = numbered
        if update is not None:
            self.kept_bytes = len(update.ops)
        if message is not None and numbered:
            self.kept_bytes += len(message.payload)

    def complete(self, append: Append) -> Append:
        return msgspec.structs.replace(append, change=self.append)

    def outcome(self) -> PublishOutcome:
        state = self.state
        return PublishOutcome(change=ChangeOutcome(state.epoch, state.version, state.timestamp))


class DocumentJudge(OrderedHandler[ApplyChange]):
    """Serves all channels of one owner."""

    def __init__(
        self,
        store: DocumentStore,
        clock: Clock,
        limits: DocumentLimits,
        announcements: Announcements,
        events: DocumentEvents,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._announcements = announcements
        self._events = events

    def spares_quota(self, request: ApplyChange) -> bool:
        """Whether the change can make a document only smaller."""
        if request.options.kind == "delete":
            return True
        if request.options.kind != "patch":
            return False
        try:
            operations = read_patch(request.message.payload, NO_LIMITS)
        except HubbubError:
            return False
        return bool(operations) and all(each.op in ("remove", "test") for each in operations)

    def before(self, channel: Channel, request: ApplyChange) -> Iterable[ApplyChange]:
        """Requests the deletion of a document that has outlived its rules, before the change is
        applied."""
        is_change = request.options.kind != "delete"
        expiry = self.expiry(channel) if is_change else None
        return () if expiry is None else (expiry,)

    def expiry(self, channel: Channel) -> ApplyChange | None:
        """The deletion of a document that has outlived its rules; None: it has not."""
        state, now = document_of(channel), int(self._clock.now() * 1000)
        if not state.version or not outlived(state.at, channel.rules, now):
            return None
        options = ChangeOptions("delete", state.version, epoch=state.epoch)
        return deletion(channel.hub, channel.name, now, options)

    def prepare(self, channel: Channel, request: ApplyChange) -> Steps[PreparedWrite]:
        """Apply the change to the document in memory. Raises why it cannot be applied."""
        message, options = request.message, request.options
        state = document_of(channel)
        _check_expected(channel, state, options)
        if options.kind == "delete":
            return self._delete(state, message, options)
        if state.damage is not None:
            raise state.damage
        operations = yield from self._operations(state, message, options)
        emitted = yield from state.document.apply_steps(operations, self._limits_of(options))
        digest = digest_of(message.payload) if message.stamp is not None else b""
        if not emitted:
            return self._without_effect(state, message, digest)
        ops = b"[%b]" % b",".join(emitted)
        state.moved(max(state.at, message.published_at), len(ops))
        change_id = options.change_id or message.id
        change = StoredChange(state.version, state.at, message.publisher, change_id, ops)
        update = update_of(state.epoch, change)
        tells = channel.rules.store and channel.rules.document_messages
        return Judged(
            state.state(),
            ChangeAppend(
                state.epoch, change, state.document.size, digest, audit=_noted(state, options)
            ),
            update,
            _message_of(message, update if tells else None),
            numbered=tells,
        )

    def stored(self, channel: Channel, prepared: Judged) -> None:
        document_of(channel).stored = prepared.state
        update, size = prepared.update, prepared.state.size
        if update is not None:
            self._events.changed(channel, update, size)
            self._announcements.tell(channel, DocumentAdvanced(update, size))
        elif prepared.append is not None and prepared.append.deletes:
            self._announcements.head(channel)

    async def original(self, producer: int, request: ApplyChange) -> FoundPut:
        message = request.message
        assert message.stamp is not None
        found = await self._store.read_document_put(producer, message.stamp.sequence)
        if found is None or found.digest != digest_of(message.payload):
            raise sequence_reused(message)
        return FoundPut(change=ChangeOutcome(found.epoch, found.version, found.at))

    def _operations(
        self, state: ChannelDocument, message: Message, options: ChangeOptions
    ) -> Steps[Iterable[Operation]]:
        limits = self._limits_of(options)
        if options.kind == "merge":
            patch = yield from read_merge_patch_steps(message.payload, limits)
            return merge_operations(state.document.root, patch)
        return (yield from read_patch_steps(message.payload, limits))

    def _limits_of(self, options: ChangeOptions) -> DocumentLimits:
        if not options.from_hub:
            return self._limits
        return msgspec.structs.replace(self._limits, request_bytes=NO_LIMITS.request_bytes)

    @staticmethod
    def _without_effect(state: ChannelDocument, message: Message, digest: bytes) -> Judged:
        """A change without effect is stored only if a producer counts it."""
        if message.stamp is None:
            return Judged(state.state())
        change = StoredChange(state.version, state.at, None, "", b"")
        append = ChangeAppend(state.epoch, change, state.document.size, digest)
        return Judged(state.state(), append, message=_message_of(message, None))

    @staticmethod
    def _delete(state: ChannelDocument, message: Message, options: ChangeOptions) -> Judged:
        """Deleting a document that does not exist succeeds."""
        at = max(state.at, message.published_at)
        if state.version:
            state.begin_anew(randomness.token_hex(4), at)
        gone = StoredChange(0, at, None, "", b"")
        append = ChangeAppend(state.epoch, gone, 2, deletes=True, audit=_noted(state, options))
        return Judged(state.state(), append, message=_message_of(message, None))


def _message_of(message: Message, update: DocumentUpdate | None) -> Message:
    """The message that tells of a change: the update, as subscribers receive it. If only the change
    itself is stored, the message has no serial and is not stored."""
    return Message(
        message.id,
        message.hub,
        message.channel,
        "DocumentUpdated",
        b"" if update is None else _update_json(update),
        JSON,
        message.published_at,
        publisher=message.publisher,
        store=True,
        taken_at=message.taken_at,
        session=message.session,
        technology=message.technology,
    )


def deletion(hub: str, channel: str, now: int, options: ChangeOptions) -> ApplyChange:
    """The hub's own request to delete a document."""
    return ApplyChange(Message("", hub, channel, "", b"", JSON, now, store=True), options)


def _update_json(update: DocumentUpdate) -> bytes:
    said = {
        "epoch": update.epoch,
        "version": update.version,
        "ts": update.timestamp,
        "changeID": update.change_id,
        "ops": msgspec.Raw(update.ops),
    }
    if update.author is not None:
        said["author"] = update.author
    return msgspec.json.encode(said)


def _noted(state: ChannelDocument, options: ChangeOptions) -> AuditEntry | None:
    if options.audit is None:
        return None
    after = {"epoch": state.epoch, "version": state.version}
    return msgspec.structs.replace(options.audit, after=msgspec.json.encode(after))


def _check_expected(channel: Channel, state: ChannelDocument, options: ChangeOptions) -> None:
    expected = options.expected_version
    if expected is not None and expected != state.version:
        wrong = "that version" if expected < 0 else f"version {expected}"
    elif options.must_exist and not state.version:
        wrong = "a version from 1 on"
    elif options.epoch and options.epoch != state.epoch and (expected or expected is None):
        wrong = f"epoch {options.epoch[:40]!r}"
    else:
        return
    error = VersionMismatch(
        f"the document {channel.name!r} is at version {state.version} in epoch {state.epoch!r}, "
        f"not at {wrong}; read it again and repeat the change"
    )
    error.details |= {"version": state.version, "epoch": state.epoch}
    raise error
