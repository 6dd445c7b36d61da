"""The state of a local copy: the hub's last known document, and pending changes on top of it.

Pure: events arrive as method calls, and `effects` returns the resulting actions.
`spec/document-copies.json` specifies this by examples, for every SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from hubbub.client.copies.changes import (
    LIMITS,
    Backoff,
    Confirmed,
    EditFunction,
    Effect,
    Fetch,
    Forget,
    Guard,
    PendingChange,
    Rejected,
    Save,
    SavedChange,
    Send,
    Wait,
    lists_in,
    touches,
)
from hubbub.domain.documents.document import JsonDocument, find
from hubbub.domain.documents.operations import read_patch, stored_patch
from hubbub.domain.documents.paths import Path
from hubbub.domain.documents.values import Value, copy_of, equal
from hubbub.domain.errors import (
    HubbubError,
    PatchFailed,
    SequenceGap,
    SequenceReused,
    VersionMismatch,
)

MAX_TRIES = 25
"""The most calls of an edit's function."""
MAX_BUFFERED = 1000
"""The most updates that wait for missing earlier ones."""


class Update(msgspec.Struct, frozen=True, rename={"change_id": "changeID"}):
    """The change that led to a version of the hub's document."""

    epoch: str
    version: int
    change_id: str
    ops: msgspec.Raw


class Fetched(msgspec.Struct, frozen=True):
    """The hub's document, or the updates that lead to a version; with `more`, to an intermediate
    one."""

    epoch: str
    version: int
    document: Value = msgspec.UNSET
    updates: tuple[Update, ...] = ()
    more: bool = False


class Replica:
    """`confirmed` is the hub's document at `version` of `epoch`; `view` includes the pending
    changes. At most one change is in flight."""

    def __init__(
        self,
        new_id: Callable[[], str],
        new_producer: Callable[[], str],
        *,
        saved: Iterable[SavedChange] = (),
        producer: str = "",
        sequence: int = 0,
    ) -> None:
        self.confirmed = JsonDocument()
        self.epoch = ""
        self.version = 0
        self.known = False
        """Whether the hub's document was ever received."""
        self.view = self.confirmed
        self.pending = [PendingChange(each) for each in saved]
        self._new_id = new_id
        self._new_producer = new_producer
        self._producer = producer
        self._sequence = sequence
        self._connected = False
        self._current = False
        """Whether all known updates were received."""
        self._fetching = False
        self._backing_off = False
        self._held: Fetched | None = None
        """A document that may include the change in flight: it is applied when that is known."""
        self._buffered: dict[tuple[str, int], Update] = {}
        self._stale = False
        self._effects: list[Effect] = []

    def load(self, epoch: str, version: int, document: Value) -> None:
        """Loads the confirmed document of an earlier run, which may be older than the saved
        changes."""
        self.confirmed = JsonDocument(document)
        self.epoch, self.version, self.known = epoch, version, True
        self._rebuild()

    @property
    def unconfirmed(self) -> int:
        """How many changes the hub has not confirmed."""
        answered = bool(self.pending) and self.pending[0].answered is not None
        return len(self.pending) - answered

    def unsettled(self) -> list[SavedChange]:
        """The changes to save, rebased on the confirmed document."""
        return [each.saved for each in self.pending if each.answered is None]

    def effects(self) -> list[Effect]:
        """The actions to take since the last call, in order."""
        found, self._effects = self._effects, []
        return found

    # -- edits ----------------------------------------------------------------------------------

    def edit(self, ops: bytes, guard: Guard = "auto") -> str:
        """Applies operations to the view at once; returns the change's id. Raises an error if they
        do not fit; nothing changes then."""
        operations = read_patch(ops, LIMITS)
        view = self._own_view()
        lists = () if guard == "never" else lists_in(view.root, operations)
        view.apply(operations, LIMITS)
        return self._append(ops, guard, lists)

    def edit_by(self, function: EditFunction, guard: Guard = "auto") -> str | None:
        """Applies the operations that a function returns for the view. The function is called again
        whenever the underlying document changes, until the change is sent. Returns None if it
        returned no operations. Raises the function's exceptions."""
        view = self._own_view()
        ops = function(view.root)
        operations = read_patch(ops, LIMITS)
        if not operations:
            return None
        view.apply(operations, LIMITS)
        return self._append(ops, guard, (), function)

    def _own_view(self) -> JsonDocument:
        if self.view is self.confirmed:
            self.view = _copy(self.confirmed)
        return self.view

    def _append(
        self,
        ops: bytes,
        guard: Guard,
        lists: tuple[Path, ...],
        function: EditFunction | None = None,
    ) -> str:
        saved = SavedChange(
            self._new_id(),
            msgspec.Raw(ops),
            guard,
            function is not None,
            lists,
            self.epoch,
            self.version,
        )
        change = PendingChange(saved, function)
        self.pending.append(change)
        self._pump()
        if not change.sent:
            self._effects.append(Save(change.saved))
        return change.id

    # -- the connection -------------------------------------------------------------------------

    def connected(self) -> None:
        """A connection exists on which the document is followed."""
        self._connected = True
        self.resend()
        self.catch_up()

    def lost(self) -> None:
        self._connected = self._current = self._fetching = self._backing_off = False
        self._held = None
        self._buffered.clear()

    def resend(self) -> None:
        """Sends the change in flight again, unchanged; after a `Backoff`, the next change."""
        if self._connected and self.pending and self.pending[0].in_flight:
            self._effects.append(Send(self.pending[0].saved))
        self._backing_off = False
        self._pump()

    def catch_up(self) -> None:
        """Updates may be missing: requests them."""
        self._current = False
        self._fetch()

    def fetch_failed(self) -> None:
        """A `Fetch` failed: call `catch_up` later."""
        self._fetching = False

    # -- from the hub ---------------------------------------------------------------------------

    def informed(self, epoch: str, version: int) -> None:
        """The hub reported the version of its document."""
        if version == 0 and self._unwritten():
            self._stand(epoch, 0)
            self.known = self._current = self._stale = True
        elif epoch == self.epoch and version <= self.version:
            self._current = True
        else:
            self.catch_up()
        self._finish()

    def updated(self, update: Update) -> None:
        self._take_update(update)
        self._finish()

    def fetched(self, found: Fetched) -> None:
        """The result of a `Fetch`."""
        self._fetching = False
        if found.document is not msgspec.UNSET and self._in_flight() is not None:
            self._held = found
            return
        self._take(found)
        self._finish()

    def answered(self, change_id: str, epoch: str, version: int) -> None:
        """The hub accepted a change, now or earlier, which produced this version."""
        change = self._in_flight()
        if change is None or change.id != change_id:
            return  # its update was here first
        change.answered = (epoch, version)
        self._sequence = change.saved.sequence
        self._effects.append(Confirmed(change.id, epoch, version))
        self._forget(change)
        if version and epoch != self.epoch:
            self.catch_up()
        self._finish()

    def refused(self, change_id: str, error: HubbubError) -> None:
        change = self._in_flight()
        if change is None or change.id != change_id:
            return
        if error.retry:
            self._effects.append(Wait(change.id, error.retry_after))
            return
        change.alter(sequence=0, producer="")
        self._stale = True  # judged again: updates that came meanwhile may speak against it
        if isinstance(error, VersionMismatch):
            self._mismatched(change, error)
        elif isinstance(error, SequenceGap | SequenceReused):
            self._producer = ""  # the hub, or the file, is older than the other
        else:
            self._reject(change, error)
        self._finish()

    def _mismatched(self, change: PendingChange, error: VersionMismatch) -> None:
        change.tries += 1
        lost_function = change.saved.function and change.function is None
        if lost_function or change.tries >= (MAX_TRIES if change.function else 2**62):
            self._reject(change, error)
        elif change.tries > 1:
            self._backing_off = True
            self._effects.append(Backoff(change.id, change.tries))
        now = (error.details.get("epoch"), error.details.get("version"))
        if now[0] != self.epoch or not isinstance(now[1], int) or now[1] > self.version:
            self.catch_up()

    # -- the hub's document ---------------------------------------------------------------------

    def _fetch(self) -> None:
        if self._connected and not self._fetching and self._held is None:
            self._fetching = True
            whole = not self.known or (self.version == 0 and not self._unwritten())
            since = None if whole else self.version
            self._effects.append(Fetch(since, self.epoch if self.version else None))

    def _take(self, found: Fetched) -> None:
        if found.document is not msgspec.UNSET:
            self._take_document(found)
        for update in found.updates:
            self._take_update(update)
        for _, update in sorted(self._buffered.items()):
            if not self._follow(update):
                break
        self._buffered = {
            at: each
            for at, each in self._buffered.items()
            if at[0] != self.epoch or at[1] > self.version
        }
        self._current = not self._buffered and not found.more
        if not self._current:
            self._buffered.clear()
            self._fetch()

    def _take_update(self, update: Update) -> None:
        if update.epoch == self.epoch and update.version <= self.version:
            return
        if not self._follow(update):
            if len(self._buffered) < MAX_BUFFERED:
                self._buffered[update.epoch, update.version] = update
            self.catch_up()

    def _follow(self, update: Update) -> bool:
        """Returns whether the update is the next one."""
        begins = self.known and self._unwritten()
        if update.version != self.version + 1 or not (begins or update.epoch == self.epoch):
            return False
        operations = stored_patch(bytes(update.ops))
        own = next((each for each in self.pending if each.id == update.change_id), None)
        if own is None:
            for change in self.pending:
                change.disturb(update.version, operations)
        try:
            self.confirmed.follow(operations)
        except PatchFailed:
            self.known = False  # it is not the hub's document: read all of it again
            return False
        self._stand(update.epoch, update.version)
        if own is not None:
            self._settle(own)
        self._stale = True
        return True

    def _unwritten(self) -> bool:
        """Whether nothing here comes from a written document: a new epoch then loses nothing."""
        made_for_one = any(each.saved.base for each in self.pending)
        return self.version == 0 and not made_for_one and self._written_in() is None

    def _written_in(self) -> str | None:
        """The epoch in which the hub accepted the first pending change, whose update has not
        arrived yet: later changes were made for a document of that epoch."""
        answered = self.pending[0].answered if self.pending else None
        return answered[0] if answered is not None and answered[1] else None

    def _take_document(self, found: Fetched) -> None:
        if self.known and found.epoch == self.epoch and found.version <= self.version:
            return
        before, self.confirmed = self.confirmed, JsonDocument(found.document)
        written_in = self._written_in()
        for change in tuple(self.pending):
            saved = change.saved
            if change.answered is not None:
                continue
            made_for = written_in or (saved.epoch if saved.base else found.epoch)
            if made_for != found.epoch:
                self._reject(change, _anew(found))
            elif (
                saved.function
                or self._behind(change)
                or not _same(before, self.confirmed, saved.lists)
            ):
                change.disturb(found.version, None)
        self.known = self._stale = True
        self._stand(found.epoch, found.version)

    def _stand(self, epoch: str, version: int) -> None:
        self.epoch, self.version = epoch, version
        for change in self.pending:
            change.rebase(epoch, version)

    # -- pending changes ------------------------------------------------------------------------

    def _in_flight(self) -> PendingChange | None:
        return self.pending[0] if self.pending and self.pending[0].in_flight else None

    def _settle(self, change: PendingChange) -> None:
        """The hub's document includes the change."""
        self.pending.remove(change)
        if change.answered is not None:
            return
        if change.sent:
            self._sequence = change.saved.sequence
        else:
            self._producer = ""  # the change had been sent with a sequence that is used up
        self._effects.append(Confirmed(change.id, self.epoch, self.version))
        self._forget(change)

    def _reject(self, change: PendingChange, error: Exception) -> None:
        """Rejects a change, and later ones that index into lists that it changed: their positions
        are now wrong."""
        if change.in_flight:
            self._producer = ""  # whether its sequence is used up is not known
        self.pending.remove(change)
        self._stale = True
        self._effects.append(Rejected(change.id, change.saved.ops, error))
        self._forget(change)
        self._undermine(change)

    def _undermine(self, gone: PendingChange) -> None:
        """A change was rejected: later ones may depend on it."""
        operations = gone.operations()
        for later in self.pending:
            made_for_it = later.saved.function or touches(operations, later.saved.lists)
            if later.function is None and made_for_it:
                later.conflicted = True

    def _forget(self, change: PendingChange) -> None:
        self._effects.append(Forget(change.id, self._producer, self._sequence))

    def _finish(self) -> None:
        """Called after every event: settles confirmed changes, updates the view, sends the next
        change."""
        if self._held is not None and self._in_flight() is None:
            held, self._held = self._held, None
            self._take(held)
        head = self.pending[0] if self.pending else None
        if head is not None and head.answered is not None and self._reached(*head.answered):
            self.pending.remove(head)
            self._stale = True
            if head.answered[1] and head.answered[0] != self.epoch:
                self._undermine(head)
        if self._stale:
            self._rebuild()
        self._pump()

    def _reached(self, epoch: str, version: int) -> bool:
        """Whether the document includes the changes that led to a version. Changes accepted in
        another epoch are lost."""
        if epoch != self.epoch:
            return version == 0 or (self._current and not self._fetching)
        return version <= self.version

    def _rebuild(self) -> None:
        self._stale = False
        self.view = _copy(self.confirmed) if self.pending else self.confirmed
        for change in tuple(self.pending):
            self._show(change)
        if not self.pending:
            self.view = self.confirmed
        self._stale = False

    def _show(self, change: PendingChange) -> None:
        """Applies a pending change to the view; an unsent change that no longer fits is
        rejected."""
        try:
            if change.conflicted and not change.sent:
                raise _conflict()
            if change.function is not None and not change.sent:
                self._run(change, change.function)
            operations = change.operations()
            if not operations and not change.sent:
                self._effects.append(Confirmed(change.id, self.epoch, self.version))
                self.pending.remove(change)
                self._forget(change)
                return
            self.view.apply(operations, LIMITS)
        except Exception as error:  # noqa: BLE001 - whatever a function raises
            if not change.sent and not self._behind(change):
                self._reject(change, error)

    def _run(self, change: PendingChange, function: EditFunction) -> None:
        """Runs the function and saves its latest operations: the function itself does not survive a
        restart."""
        ops = function(self.view.root)
        if ops != change.ops:
            change.alter(ops=msgspec.Raw(ops))
            self._effects.append(Save(change.saved))

    def _behind(self, change: PendingChange) -> bool:
        """Whether the change was made for a newer document than the known one."""
        saved = change.saved
        return bool(saved.base) and (saved.epoch != self.epoch or saved.base > self.version)

    def _pump(self) -> None:
        if not (self._connected and self._current and self.pending):
            return
        if self._fetching or self._backing_off:
            return
        change = self.pending[0]
        if change.sent or self._behind(change):
            return
        if not self._producer:
            self._producer, self._sequence = self._new_producer(), 0
        change.alter(
            producer=self._producer,
            sequence=self._sequence + 1,
            expected=self.version if change.guarded else None,
            sent_epoch=self.epoch if self.version else None,
        )
        self._effects += [Save(change.saved), Send(change.saved)]


def _copy(document: JsonDocument) -> JsonDocument:
    return JsonDocument(copy_of(document.root))


def _same(one: JsonDocument, other: JsonDocument, paths: Iterable[Path]) -> bool:
    """Whether both documents have equal lists at these paths."""
    try:
        return all(equal(find(one.root, path), find(other.root, path)) for path in paths)
    except PatchFailed:
        return False


def _conflict() -> VersionMismatch:
    return VersionMismatch(
        "a list was changed by somebody else since, and the change goes through its positions; "
        "look at the document and make the change again"
    )


def _anew(found: Fetched) -> VersionMismatch:
    error = VersionMismatch(
        "the document began anew since the change was made: it was deleted, or restored from an "
        "older backup"
    )
    error.details |= {"epoch": found.epoch, "version": found.version}
    return error
