"""A document and its changes: in place, all or nothing, with limits checked after every operation.

A change costs what it touches, not the size of the document: a failed change is undone step by
step, and the document's size is updated incrementally. Other values that a change visits are
counted and bounded. Each operation also exists in steps, for the hub's event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hubbub.domain.documents.operations import Operation
from hubbub.domain.documents.paths import (
    Path,
    existing_index,
    is_index,
    new_index,
    path_text,
)
from hubbub.domain.documents.steps import STEP, Steps, finish
from hubbub.domain.documents.values import (
    NO_LIMITS,
    DocumentLimits,
    Value,
    copy_of,
    depth_steps,
    equal,
    is_bytes_name,
    measured,
    size_of,
    stored_value_steps,
    text_json,
    too_deep,
    value_json,
    value_json_steps,
)
from hubbub.domain.errors import HubbubError, NotFound, PatchFailed, TooLarge

_MISSING: Any = object()
_OPERATION = 8
"""The cost of an operation itself, in visited values."""
_LARGE = 32 * 1024
"""A value with more bytes than this is not renamed in one step."""
_SHIFTS = 64
"""How many list items can be shifted in the time of visiting one value."""
_MEASURED = 64
"""How many bytes of a value can be measured in the time of visiting one value."""


class JsonDocument:
    """A mutable JSON value. `size` is the length of its JSON text, with bytes counted at their own
    length."""

    __slots__ = ("escapes", "root", "size", "visits")

    def __init__(self, root: Value = _MISSING) -> None:
        self.root: Value = {} if root is _MISSING else root
        self.size, self.escapes = measured(self.root)
        """`escapes`: some object may have a member named `$bytes`, `$$bytes` …"""
        self.visits = 0
        """How many values the changes to the document have visited."""

    @classmethod
    def stored(cls, text: bytes) -> JsonDocument:
        """Creates a document from a JSON text that `json` returned."""
        return finish(cls.stored_steps(text))

    @classmethod
    def stored_steps(cls, text: bytes) -> Steps[JsonDocument]:
        return cls((yield from stored_value_steps(text)))

    def json(self) -> bytes:
        return finish(self.json_steps())

    def json_steps(self, path: Path = ()) -> Steps[bytes]:
        """The JSON text of the part at the path, as of the first step. Raises `NotFound`."""
        return value_json_steps(self.part(path), self.escapes)

    def part(self, path: Path) -> Value:
        """Raises `NotFound`."""
        try:
            return find(self.root, path)
        except PatchFailed:
            raise NotFound(f"the document has nothing at {path_text(path)[:80]!r}") from None

    def part_json(self, path: Path) -> bytes:
        """Raises `NotFound`."""
        return finish(self.json_steps(path))

    def apply(self, operations: Iterable[Operation], limits: DocumentLimits) -> list[bytes]:
        """Applies a change; returns it as plain RFC 6902 operations in JSON that any library can
        apply: tests removed, `-` resolved, created and converted parents spelled out. An empty list
        means that nothing changed. Raises `PatchFailed` and `TooLarge`; the document is unchanged
        then."""
        return finish(self.apply_steps(operations, limits))

    def apply_steps(
        self, operations: Iterable[Operation], limits: DocumentLimits
    ) -> Steps[list[bytes]]:
        change = _Change(self, limits)
        yield from self._run(change, operations)
        if not change.tells_all:
            return change.emitted
        self.escapes = measured(self.root)[1]
        return [_operation("replace", (), (yield from self.json_steps()))]

    def follow(self, operations: Iterable[Operation]) -> None:
        """Applies the operations of an update. Raises `PatchFailed` if it belongs to another
        version; the document is unchanged then."""
        finish(self.follow_steps(operations))

    def follow_steps(self, operations: Iterable[Operation]) -> Steps[None]:
        return self._run(_Change(self, NO_LIMITS, follows=True), operations)

    def _run(self, change: _Change, operations: Iterable[Operation]) -> Steps[None]:
        index = step = 0
        try:
            for index, operation in enumerate(operations):
                yield from change.run(operation)
                if change.visits + _OPERATION * index - step > STEP:
                    step = change.visits + _OPERATION * index
                    yield
        except BaseException as error:
            change.undo()
            if isinstance(error, HubbubError):
                error.details.setdefault("opIndex", index)
            raise
        finally:
            self.visits += change.visits + _OPERATION * index


def find(value: Value, path: Path) -> Value:
    """Returns the value at the path. Raises `PatchFailed`."""
    for segment in path:
        if type(value) is dict:
            value = value.get(segment, _MISSING)
            if value is _MISSING:
                raise _missing(path)
        elif type(value) is list:
            value = value[existing_index(segment, len(value))]
        else:
            raise _missing(path)
    return value


def _missing(path: Path) -> PatchFailed:
    return PatchFailed(f"there is nothing at {path_text(path)[:80]!r}", reason="missing")


def _operation(op: str, path: Iterable[str], value: bytes | None = None) -> bytes:
    if value is None:
        return b'{"op":"%b","path":%b}' % (op.encode(), text_json(path_text(path)))
    return b'{"op":"%b","path":%b,"value":%b}' % (
        op.encode(),
        text_json(path_text(path)),
        value,
    )


class _Change:
    """A change in progress, with the steps that undo it."""

    def __init__(
        self, document: JsonDocument, limits: DocumentLimits, follows: bool = False
    ) -> None:
        """`follows`: the operations are an update that the hub has already checked."""
        self._document = document
        self._limits = limits
        self._follows = follows
        self._before = document.size, document.escapes
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._copied = 0
        self._emitted_bytes = 0
        self.visits = 0
        self.emitted: list[bytes] = []
        self.tells_all = False
        """Whether the update must be the whole document, because operations would be ambiguous for
        some libraries or longer."""

    def run(self, operation: Operation) -> Steps[None]:
        """Yields after each step that visits a large value."""
        steps = _OPERATIONS[operation.op](self, operation)
        if steps is not None:
            yield from steps
        if self._document.size > self._limits.document_bytes:
            raise TooLarge(
                f"the document would have {self._document.size} bytes; at most "
                f"{self._limits.document_bytes} are allowed"
            )

    def undo(self) -> None:
        for restore, arguments in reversed(self._undo):
            restore(*arguments)
        self._document.size, self._document.escapes = self._before

    # -- the operations ---------------------------------------------------------------------------

    def _add(self, operation: Operation) -> None:
        self._place(operation.path, operation.value, self._measure(operation.value))

    def _replace(self, operation: Operation) -> None:
        path, value = operation.path, operation.value
        size = self._measure(value)
        if path:
            parent = find(self._document.root, path[:-1])
            self._replace_at(parent, _existing_key(parent, path), value, size)
        else:
            self._set_root(value, size)
        self._emit_value("replace", path, value)

    def _remove(self, operation: Operation) -> None:
        if not operation.path:
            self._set_root({}, 2)
            self._emit_value("replace", (), {})
            return
        self._take(operation.path, counted=True)
        self._emit(operation.path, lambda: _operation("remove", operation.path))

    def _test(self, operation: Operation) -> None:
        found = find(self._document.root, operation.path)
        if not equal(found, operation.value):
            raise PatchFailed(
                f"the value at {path_text(operation.path)[:80]!r} is another one", reason="test"
            )

    def _copy(self, operation: Operation) -> Steps[None]:
        source, path = operation.source or (), operation.path
        value = find(self._document.root, source)
        size = size_of(value)
        self._count_copy(size)
        if len(path) > len(source):
            yield from self._check_depth(path, value)
        # Not every library copies the whole document into itself.
        by_reference = bool(source) and self._is_plain(path)
        self._note_renaming(source)
        reached = self._place(path, copy_of(value), size, tells=not by_reference)
        if by_reference:
            self._emit_reference("copy", source, reached)

    def _move(self, operation: Operation) -> Steps[None]:
        source, path = operation.source or (), operation.path
        value = find(self._document.root, source)
        if source == path:
            return
        if path[: len(source)] == source:
            raise PatchFailed(
                f"{path_text(path)[:80]!r} lies inside of {path_text(source)[:80]!r}, which is to "
                "move there",
                reason="inside",
            )
        if len(path) > len(source):
            yield from self._check_depth(path, value)
        # Its size leaves the document and comes back: it is not counted on either way.
        self._take(source, counted=False)
        self._note_renaming(source)
        by_reference = self._is_plain(path)
        if not by_reference:
            self._count_copy(size_of(value))  # subscribers are told all of it
            self._emit(source, lambda: _operation("remove", source))
        size = 0
        if not path:
            size = size_of(value)
            self._visit(size // _MEASURED)
        reached = self._place(path, value, size, tells=not by_reference)
        if by_reference:
            self._emit_reference("move", source, reached)

    def _is_plain(self, path: Path) -> bool:
        """Whether adding a value at the path creates or converts no parent."""
        try:
            parent = find(self._document.root, path[:-1])
        except PatchFailed:
            return False
        if type(parent) is list:
            return not path or path[-1] == "-" or is_index(path[-1])
        return not path or type(parent) is dict

    def _measure(self, value: Value) -> int:
        """The size of a value that is added to the document."""
        size, may_escape = measured(value)
        self._document.escapes |= may_escape
        return size

    def _check_depth(self, path: Path, value: Value) -> Steps[None]:
        if self._follows:
            return
        depth, seen = yield from depth_steps(value)
        self._visit(seen)
        if len(path) + depth > self._limits.depth:
            raise too_deep(self._limits.depth)

    def _visit(self, values: int) -> None:
        self.visits += values
        if self.visits > self._limits.visits:
            raise TooLarge(
                f"the operations look through more than {self._limits.visits} values of the "
                "document, or shift 64 times as many items of lists; move smaller parts, append to "
                "lists, or make several changes"
            )

    def _count_copy(self, size: int) -> None:
        """Raises `TooLarge` if the change copies more bytes than a document may hold."""
        self._copied += size
        if self._copied > self._limits.document_bytes and not self._follows:
            raise TooLarge(
                f"the change copies more than {self._limits.document_bytes} bytes; make several"
            )

    # -- putting a value somewhere ----------------------------------------------------------------

    def _place(self, path: Path, value: Value, size: int, tells: bool = True) -> list[str]:
        """Adds the value at the path and creates or converts parents as the path requires; returns
        the final path. `size` is the growth of the document."""
        owner: Any = None
        key: Any = None
        current = self._document.root
        reached: list[str] = []
        self._document.escapes |= any(map(is_bytes_name, path))
        for position, segment in enumerate(path):
            last = position == len(path) - 1
            if type(current) is list:
                index = new_index(segment, len(current))
                if index is None:
                    current = self._convert(owner, key, current, reached)
                elif last or index == len(current):
                    added = _nest(path[position + 1 :], value, size)
                    self._insert(current, index, *added)
                    return self._placed("add", [*reached, str(index)], added[0], tells)
                else:
                    segment = str(index)
            elif type(current) is not dict:  # a scalar gives way
                added = _nest(path[position:], value, size)
                self._replace_at(owner, key, *added)
                return self._placed("replace", reached, added[0], tells)
            if type(current) is dict and (last or segment not in current):
                added = _nest(path[position + 1 :], value, size)
                self._set(current, segment, *added)
                return self._placed("add", [*reached, segment], added[0], tells)
            owner, key = current, segment if type(current) is dict else int(segment)
            current = owner[key]
            reached.append(segment)
        self._set_root(value, size)
        return self._placed("replace", reached, value, tells)

    def _placed(self, op: str, path: list[str], value: Value, tells: bool) -> list[str]:
        if tells:
            self._emit_value(op, path, value)
        return path

    def _convert(self, owner: Any, key: Any, items: list[Any], reached: list[str]) -> Any:
        """Converts a list into an object with its items under "0", "1" …, since the path names a
        member of it."""
        size = size_of(items) + _numbering(len(items))
        self._count_copy(size)  # subscribers are told all of it
        self._visit(len(items))
        members = {str(index): item for index, item in enumerate(items)}
        self._replace_at(owner, key, members, size)
        self._emit_value("replace", reached, members)
        return members

    # -- the steps, each with its way back --------------------------------------------------------

    def _set_root(self, value: Value, size: int) -> None:
        document = self._document
        self._undo.append((setattr, (document, "root", document.root)))
        document.root, document.size = value, size

    def _replace_at(self, owner: Any, key: Any, value: Value, size: int) -> None:
        """`owner` None replaces the root."""
        document = self._document
        old = document.root if owner is None else owner[key]
        if owner is None:
            self._undo.append((setattr, (document, "root", old)))
            document.root = value
        else:
            self._undo.append((_restore, (owner, key, old)))
            owner[key] = value
        document.size += size - size_of(old)

    def _set(self, members: dict[str, Value], name: str, value: Value, size: int) -> None:
        if name in members:
            self._replace_at(members, name, value, size)
            return
        self._undo.append((members.pop, (name,)))
        self._document.size += size + len(text_json(name)) + (2 if members else 1)
        members[name] = value

    def _insert(self, items: list[Value], index: int, value: Value, size: int) -> None:
        self._visit((len(items) - index) // _SHIFTS)
        self._undo.append((items.pop, (index,)))
        self._document.size += size + (1 if items else 0)
        items.insert(index, value)

    def _take(self, path: Path, counted: bool) -> None:
        parent = find(self._document.root, path[:-1])
        key = _existing_key(parent, path)
        if type(parent) is list:
            self._visit((len(parent) - key) // _SHIFTS)
        value = parent.pop(key)
        size = size_of(value) if counted else 0
        separators = 1 if parent else 0
        if type(parent) is dict:
            self._undo.append((_restore, (parent, key, value)))
            self._document.size -= size + len(text_json(key)) + 1 + separators
        else:
            self._undo.append((parent.insert, (key, value)))
            self._document.size -= size + separators

    # -- telling what was done --------------------------------------------------------------------

    def _emit(self, path: Iterable[str], write: Callable[[], bytes]) -> None:
        """Serializes the operation at once: a later operation may change the value."""
        self._note_renaming(tuple(path))
        if self._follows or self.tells_all:
            return
        operation = write()
        self._emitted_bytes += len(operation)
        if self._emitted_bytes > self._limits.document_bytes:
            self.tells_all = True
            self.emitted = []
        else:
            self.emitted.append(operation)

    def _note_renaming(self, path: Path) -> None:
        """Called when a member at the path was added, replaced or removed. If its JSON name gains
        or loses a `$`, the update must be the whole document."""
        if self._document.escapes and not self._follows and not self.tells_all:
            self.tells_all = any(map(is_bytes_name, path)) or self._may_rename(path)

    def _may_rename(self, path: Path) -> bool:
        """Whether a member named `$bytes` was or is the object's only member."""
        try:
            parent = find(self._document.root, path[:-1])
        except PatchFailed:
            return False
        return type(parent) is dict and len(parent) <= 2 and any(map(is_bytes_name, parent))

    def _emit_value(self, op: str, path: Iterable[str], value: Value) -> None:
        escapes = self._document.escapes
        if escapes and not self._follows and size_of(value) > _LARGE:
            self.tells_all = True  # in steps
        self._emit(path, lambda: _operation(op, path, value_json(value, escapes)))

    def _emit_reference(self, op: str, source: Path, path: list[str]) -> None:
        self._emit(
            path,
            lambda: (
                b'{"op":"%b","from":%b,"path":%b}'
                % (op.encode(), text_json(path_text(source)), text_json(path_text(path)))
            ),
        )


_OPERATIONS: Mapping[str, Callable[[_Change, Operation], Steps[None] | None]] = {
    "add": _Change._add,
    "remove": _Change._remove,
    "replace": _Change._replace,
    "move": _Change._move,
    "copy": _Change._copy,
    "test": _Change._test,
}


def _nest(rest: Path, value: Value, size: int) -> tuple[Value, int]:
    """Wraps the value in the parents that the path requires; returns it with their size added."""
    for segment in reversed(rest):
        if segment in ("0", "-"):
            value, size = [value], size + 2
        elif is_index(segment):
            raise PatchFailed(
                f"a list begins with 0 or `-`; {segment[:40]} would leave a gap", reason="index"
            )
        else:
            value, size = {segment: value}, size + len(text_json(segment)) + 3
    return value, size


def _numbering(count: int) -> int:
    """The bytes that a list of so many items grows by when they get the names "0", "1" …"""
    if not count:
        return 0
    digits = sum(count - (10**longer if longer else 0) for longer in range(len(str(count - 1))))
    return digits + 3 * count


def _existing_key(parent: Any, path: Path) -> Any:
    """The key of the existing value at the path. Raises `PatchFailed`."""
    if type(parent) is list:
        return existing_index(path[-1], len(parent))
    if type(parent) is not dict or path[-1] not in parent:
        raise _missing(path)
    return path[-1]


def _restore(owner: Any, key: Any, value: Value) -> None:
    owner[key] = value
