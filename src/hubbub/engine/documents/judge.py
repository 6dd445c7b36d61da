"""Changes to documents, judged at the owner of their channels in the channel's one queue.

Changes that gathered while an append was under way are applied to the document one after the other
and go to the store together. A refusal is answered only when what it was judged against is stored;
after a failed append the document is loaded again, and what was refused is judged again.
"""

from __future__ import annotations

import secrets

import msgspec

from hubbub.domain.documents.changes import (
    ChangeOptions,
    ChangeOutcome,
    DocumentState,
    DocumentUpdate,
    digest_of,
)
from hubbub.domain.documents.operations import (
    Operation,
    merge_operations,
    read_merge_patch,
    read_patch,
)
from hubbub.domain.documents.values import NO_LIMITS, DocumentLimits
from hubbub.domain.errors import HubbubError, SequenceGap, VersionMismatch
from hubbub.domain.messages import JSON, Attributes, Message, change_of
from hubbub.engine.channels.channel import Channel
from hubbub.engine.documents.reader import document_of, update_of
from hubbub.engine.documents.state import ChannelDocument
from hubbub.ports.storage.documents import ChangeAppend, DocumentChange


class Judged(msgspec.Struct):
    """What becomes of a change, once the store has it."""

    state: DocumentState | None = None
    """Of the document afterwards; None: the change was refused."""
    error: HubbubError | None = None
    append: ChangeAppend | None = None
    update: DocumentUpdate | None = None
    message: Message | None = None
    """That is stored with the change, and tells of it."""

    def outcome(self) -> ChangeOutcome | None:
        if self.state is None:
            return None
        return ChangeOutcome(self.state.epoch, self.state.version, self.state.timestamp)


class DocumentJudge:
    """Serves all channels of one owner."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits

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
        state = document_of(channel)
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
            state.state(),
            append=ChangeAppend(state.epoch, change, state.document.size, digest),
            update=update_of(state.epoch, change),
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
        judged = Judged(state.state())
        if message.stamp is not None:
            change = DocumentChange(state.version, state.at, None, "", b"")
            judged.append = ChangeAppend(state.epoch, change, state.document.size, digest)
        return judged

    @staticmethod
    def _delete(state: ChannelDocument, message: Message) -> Judged:
        """A document that is not there is deleted already."""
        at = max(state.at, message.published_at)
        if state.version:
            state.begin_anew(secrets.token_hex(4), at)
        gone = DocumentChange(0, at, None, "", b"")
        return Judged(state.state(), append=ChangeAppend(state.epoch, gone, 2, deletes=True))

    @staticmethod
    def _check_turn(channel: Channel, message: Message) -> None:
        """That no earlier change of the same producer was refused since this one was taken in."""
        producer, stamp = channel.producer_of(message), message.stamp
        if producer is not None and stamp is not None and stamp.sequence > producer.accepted:
            raise SequenceGap(
                f"sequence {stamp.sequence} of producer {stamp.producer!r} cannot follow: an "
                f"earlier one was refused; {producer.accepted + 1} comes next"
            )


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
