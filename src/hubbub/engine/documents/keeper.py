"""Documents at the owner of their channels: loaded, changed in the channel's one queue, read.

Changes that gathered while an append was under way are applied to the document one after the other
and go to the store together. Nobody sees a version before it is on disk: questions wait for the
end of the append, and a refusal is answered only when what it was judged against is stored. After
a failed append the document is loaded again, and what was refused is judged again.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib

import msgspec

from hubbub.domain.documents.changes import (
    PAGE,
    ChangeOptions,
    ChangeOutcome,
    DocumentAnswer,
    DocumentQuery,
    DocumentState,
    DocumentUpdate,
    digest_of,
)
from hubbub.domain.documents.document import Document
from hubbub.domain.documents.operations import (
    Operation,
    merge_operations,
    read_merge_patch,
    read_patch,
    stored_patch,
)
from hubbub.domain.documents.paths import parse_path
from hubbub.domain.documents.values import NO_LIMITS, DocumentLimits
from hubbub.domain.errors import BadRequest, HistoryGone, HubbubError, SequenceGap, VersionMismatch
from hubbub.domain.messages import JSON, Attributes, Message, change_of
from hubbub.engine.channels.channel import Channel
from hubbub.engine.documents.snapshots import Snapshots
from hubbub.engine.documents.state import ChannelDocument
from hubbub.ports.storage.documents import (
    ChangeAppend,
    DocumentChange,
    DocumentStore,
    StoredDocument,
)


class Judged(msgspec.Struct):
    """What becomes of a change, once the store has it."""

    outcome: ChangeOutcome | None = None
    error: HubbubError | None = None
    append: ChangeAppend | None = None
    update: DocumentUpdate | None = None
    size: int = 0
    """Of the document afterwards."""
    message: Message | None = None
    """That is stored with the change, and tells of it."""


class DocumentKeeper:
    """Serves all channels of one owner."""

    def __init__(
        self,
        store: DocumentStore,
        limits: DocumentLimits,
        snapshots: Snapshots,
    ) -> None:
        self._store = store
        self._limits = limits
        self.snapshots = snapshots

    async def load(self, channel: Channel) -> None:
        """The newest snapshot, and every change since."""
        found = await self._store.read_document(channel.hub, channel.name)
        if found is None:
            known = channel.document
            unwritten = known is not None and known.version == 0
            epoch = known.epoch if known is not None and unwritten else secrets.token_hex(4)
            channel.document = ChannelDocument(epoch)
            return
        state = ChannelDocument(found.head.epoch)
        state.document = _built(found)
        state.version, state.at = found.head.version, found.head.updated_at
        state.changes_since = len(found.changes)
        state.bytes_since = sum(len(each.ops) for each in found.changes)
        channel.document = state

    # -- changing -------------------------------------------------------------------------------

    def refuse_put(self, channel: Channel, message: Message) -> Judged | None:
        """Of a message that its producer put behind a change which was refused since."""
        try:
            self._check_turn(channel, message)
        except SequenceGap as error:
            return Judged(error=error)
        return None

    def judge(self, channel: Channel, message: Message) -> Judged:
        """Apply a change, or say why not. No append of the channel is under way."""
        options = change_of(message)
        assert options is not None
        state = _document_of(channel)
        try:
            self._check_turn(channel, message)
            _check_expected(channel, state, options)
            if options.kind == "delete":
                return self._delete(state, message)
            emitted = state.document.apply(
                self._operations(state, message, options), self._limits_of(options)
            )
        except HubbubError as error:
            _give_back(channel, message)
            return Judged(error=error)
        digest = digest_of(message.payload) if message.stamp is not None else b""
        if not emitted:
            return self._without_effect(state, message, digest)
        ops = b"[%b]" % b",".join(emitted)
        state.moved(max(state.at, message.published_at), len(ops))
        change_id = options.change_id or message.id
        change = DocumentChange(state.version, state.at, message.publisher, change_id, ops)
        return Judged(
            outcome=ChangeOutcome(state.epoch, state.version, state.at),
            append=ChangeAppend(state.epoch, change, state.document.size, digest),
            update=update_of(state.epoch, change),
            size=state.document.size,
        )

    def _operations(
        self, state: ChannelDocument, message: Message, options: ChangeOptions
    ) -> list[Operation]:
        limits = self._limits_of(options)
        if options.kind == "merge":
            patch = read_merge_patch(message.payload, limits)
            return merge_operations(state.document.root, patch)
        return read_patch(message.payload, limits)

    def _limits_of(self, options: ChangeOptions) -> DocumentLimits:
        if not options.from_hub:
            return self._limits
        return msgspec.structs.replace(self._limits, request_bytes=NO_LIMITS.request_bytes)

    @staticmethod
    def _without_effect(state: ChannelDocument, message: Message, digest: bytes) -> Judged:
        """Stored only where a producer counts it."""
        judged = Judged(outcome=ChangeOutcome(state.epoch, state.version, state.at))
        if message.stamp is not None:
            change = DocumentChange(state.version, state.at, None, "", b"")
            judged.append = ChangeAppend(state.epoch, change, state.document.size, digest)
        return judged

    @staticmethod
    def _delete(state: ChannelDocument, message: Message) -> Judged:
        """A document that is not there is deleted already."""
        at = max(state.at, message.published_at)
        if state.version:
            state.begin_anew(secrets.token_hex(4))
        outcome = ChangeOutcome(state.epoch, 0, at)
        gone = DocumentChange(0, at, None, "", b"")
        return Judged(outcome, append=ChangeAppend(state.epoch, gone, 2, deletes=True))

    @staticmethod
    def _check_turn(channel: Channel, message: Message) -> None:
        """That no earlier change of the same producer was refused since this one was taken in."""
        producer, stamp = channel.producer_of(message), message.stamp
        if producer is not None and stamp is not None and stamp.sequence > producer.accepted:
            raise SequenceGap(
                f"sequence {stamp.sequence} of producer {stamp.producer!r} cannot follow: an "
                f"earlier one was refused; {producer.accepted + 1} comes next"
            )

    # -- reading --------------------------------------------------------------------------------

    async def answer(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        """Raises `NotFound`, `InvalidPatch`, `BadRequest`, `HistoryGone`."""
        if query.limit:
            return await self._changes(channel, query)
        if query.at is not None or query.at_time is not None:
            return await self._of_then(query)
        if query.since is not None:
            found = await self._updates(channel, query)
            if found is not None:
                return found
        return await self._now(channel, query)

    @staticmethod
    async def _now(channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        path = parse_path(query.path)
        answered: asyncio.Future[DocumentAnswer] = asyncio.get_running_loop().create_future()

        def read() -> None:
            """Between two appends, so that what is read is on disk."""
            if answered.done():
                return
            try:
                state = _document_of(channel)
                text = state.document.part_json(path) if path else state.text()
                answered.set_result(DocumentAnswer(state.state(), text))
            except HubbubError as error:
                answered.set_exception(error)

        channel.when_stored(read, answered)
        return await answered

    async def _updates(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer | None:
        """What leads from a version that the caller has to the present one; None: the document
        itself is shorter, or what lies between is gone."""
        assert query.since is not None
        page = await self._store.read_document_changes(
            query.hub, query.channel, query.since, None, PAGE
        )
        head = page.head
        if head is None or (query.epoch and query.epoch != head.epoch):
            return None
        if query.since > head.version or query.since < head.first - 1:
            return None
        if page.bytes_behind > max(head.size, 1024):
            return None
        state = DocumentState(head.epoch, head.version, head.updated_at, head.size)
        updates = tuple(update_of(head.epoch, each) for each in page.changes)
        return DocumentAnswer(state, None, updates, page.more)

    async def _changes(self, channel: Channel, query: DocumentQuery) -> DocumentAnswer:
        page = await self._store.read_document_changes(
            query.hub, query.channel, query.since or 0, query.before, query.limit
        )
        if page.head is None:
            return DocumentAnswer(_document_of(channel).state())
        head = page.head
        state = DocumentState(head.epoch, head.version, head.updated_at, head.size)
        updates = tuple(update_of(head.epoch, each) for each in page.changes)
        return DocumentAnswer(state, None, updates, page.more)

    async def _of_then(self, query: DocumentQuery) -> DocumentAnswer:
        if query.at is not None and query.at_time is not None:
            raise BadRequest("give at most one of `at` and `atTime`")
        found = await self._store.read_document(query.hub, query.channel, query.at, query.at_time)
        if found is None or found.version > found.head.version:
            raise HistoryGone(f"the document {query.channel!r} was not there then")
        if query.epoch and query.epoch != found.head.epoch:
            raise HistoryGone(f"the document {query.channel!r} began anew since that epoch")
        if found.snapshot_version > found.version:
            raise HistoryGone(
                f"of the document {query.channel!r}, versions before "
                f"{max(found.head.first - 1, 0)} are not kept any more"
            )
        document = _built(found)
        when = found.changes[-1].at if found.changes else found.snapshot_at
        state = DocumentState(found.head.epoch, found.version, when, document.size)
        return DocumentAnswer(state, document.part_json(parse_path(query.path)))


def message_of(message: Message, update: DocumentUpdate | None) -> Message:
    """What a change is in the store of messages: the update, as subscribers get it. Where only the
    change itself is stored, the message is not (it has no serial)."""
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


def deletion(hub: str, channel: str, now: int, options: ChangeOptions) -> Message:
    """What the hub itself sends to have a document deleted."""
    made_by_hub = Attributes(change=options)
    return Message("", hub, channel, "", b"", JSON, now, store=True, attributes=made_by_hub)


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


def update_of(epoch: str, change: DocumentChange) -> DocumentUpdate:
    return DocumentUpdate(
        epoch, change.version, change.at, change.author, change.change_id, change.ops
    )


def only_removes(message: Message) -> bool:
    """Whether a change can make a document only smaller: it passes a quota that is used up."""
    options = change_of(message)
    if options is None:
        return False
    if options.kind == "delete":
        return True
    try:
        operations = read_patch(message.payload, NO_LIMITS) if options.kind == "patch" else []
    except HubbubError:
        return False
    return bool(operations) and all(each.op in ("remove", "test") for each in operations)


def _built(found: StoredDocument) -> Document:
    text = zlib.decompress(found.snapshot) if found.snapshot else b"{}"
    document = Document.stored(text)
    for change in found.changes:
        document.follow(stored_patch(change.ops))
    return document


def _document_of(channel: Channel) -> ChannelDocument:
    assert channel.document is not None
    return channel.document


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


def _give_back(channel: Channel, message: Message) -> None:
    """A refused change uses up no sequence of its producer."""
    producer = channel.producer_of(message)
    if producer is not None and message.stamp is not None:
        producer.accepted = min(producer.accepted, message.stamp.sequence - 1)
