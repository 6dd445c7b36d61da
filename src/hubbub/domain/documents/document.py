"""A document and the changes to it: in place, all or nothing, with limits after every operation.

A change costs what it touches, not what the document holds: a failed one is undone step by step,
and the document's size is kept up from what came and went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hubbub.domain.documents.operations import Operation
from hubbub.domain.documents.paths import (
    Path,
    existing_index,
    is_index,
    new_index,
    path_text,
)
from hubbub.domain.documents.values import (
    NO_LIMITS,
    DocumentLimits,
    Value,
    copy_of,
    depth_of,
    equal,
    has_bytes_name,
    is_bytes_name,
    size_of,
    stored_value,
    text_json,
    too_deep,
    value_json,
)
from hubbub.domain.errors import HubbubError, NotFound, PatchFailed, TooLarge

_MISSING: Any = object()


class Document:
    """A value that changes. `size` is that of its JSON text, with bytes at their own length."""

    __slots__ = ("escapes", "root", "size")

    def __init__(self, root: Value = _MISSING, *, may_escape: bool = True) -> None:
        """`may_escape` is False where no member can have a name that is escaped."""
        self.root: Value = {} if root is _MISSING else root
        self.size = size_of(self.root)
        self.escapes = may_escape and has_bytes_name(self.root)
        """An object in it may have a member called `$bytes`, `$$bytes` …"""

    @classmethod
    def stored(cls, text: bytes) -> Document:
        """Of a JSON text that `json` answered."""
        return cls(stored_value(text), may_escape=b'bytes"' in text)

    def json(self) -> bytes:
        return value_json(self.root, self.escapes)

    def part(self, path: Path) -> Value:
        """Raises `NotFound`."""
        try:
            return find(self.root, path)
        except PatchFailed:
            raise NotFound(f"the document has nothing at {path_text(path)[:80]!r}") from None

    def part_json(self, path: Path) -> bytes:
        """Raises `NotFound`."""
        return value_json(self.part(path), self.escapes) if path else self.json()

    def apply(self, operations: Iterable[Operation], limits: DocumentLimits) -> list[bytes]:
        """Change the document; answers the same change as plain RFC 6902 operations, each as JSON,
        which any library applies: tests left out, `-` resolved, created and converted parents
        spelled out. None of them: nothing has changed. Raises `PatchFailed` and `TooLarge`, and
        then nothing has changed either."""
        change = _Change(self, limits)
        index = 0
        try:
            for index, operation in enumerate(operations):  # noqa: B007 - told in the error
                change.run(operation)
        except HubbubError as error:
            change.undo()
            error.details.setdefault("opIndex", index)
            raise
        if change.emitted and self.escapes:
            # A member called `$bytes` has another name in JSON while it is alone in its object,
            # also in between: only the whole document says the same to every library.
            self.escapes = has_bytes_name(self.root)
            return [_operation("replace", (), self.json())]
        return change.emitted

    def follow(self, operations: Iterable[Operation]) -> None:
        """Apply the operations of an update. Raises `PatchFailed` where it belongs to another
        version; then nothing has changed."""
        change = _Change(self, NO_LIMITS, emits=False)
        try:
            for operation in operations:
                change.run(operation)
        except HubbubError:
            change.undo()
            raise


def find(value: Value, path: Path) -> Value:
    """What is at the path. Raises `PatchFailed`."""
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
    """Operations on their way into a document, and the way back."""

    def __init__(self, document: Document, limits: DocumentLimits, emits: bool = True) -> None:
        self._document = document
        self._limits = limits
        self._emits = emits
        self._before = document.size, document.escapes
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._copied = 0
        self.emitted: list[bytes] = []
        self._run = {
            "add": self._add,
            "remove": self._remove,
            "replace": self._replace,
            "move": self._move,
            "copy": self._copy,
            "test": self._test,
        }

    def run(self, operation: Operation) -> None:
        self._run[operation.op](operation)
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
        self._place(operation.path, operation.value, size_of(operation.value))

    def _replace(self, operation: Operation) -> None:
        path, value = operation.path, operation.value
        if path:
            parent = find(self._document.root, path[:-1])
            self._replace_at(parent, _existing_key(parent, path), value, size_of(value))
        else:
            self._set_root(value, size_of(value))
        self._emit_value("replace", path, value)

    def _remove(self, operation: Operation) -> None:
        if not operation.path:
            self._set_root({}, 2)
            self._emit_value("replace", (), {})
            return
        self._take(operation.path, counted=True)
        self._emit(lambda: _operation("remove", operation.path))

    def _test(self, operation: Operation) -> None:
        found = find(self._document.root, operation.path)
        if not equal(found, operation.value):
            raise PatchFailed(
                f"the value at {path_text(operation.path)[:80]!r} is another one", reason="test"
            )

    def _copy(self, operation: Operation) -> None:
        source, path = operation.source or (), operation.path
        value = find(self._document.root, source)
        size = size_of(value)
        self._count_copy(size)
        if len(path) > len(source):
            self._check_depth(path, value)
        # Not every library copies the whole document into itself.
        by_reference = bool(source) and self._is_plain(path)
        reached = self._place(path, copy_of(value), size, tells=not by_reference)
        if by_reference:
            self._emit_reference("copy", source, reached)

    def _move(self, operation: Operation) -> None:
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
            self._check_depth(path, value)
        # Its size leaves the document and comes back: it is not counted on either way.
        self._take(source, counted=False)
        by_reference = self._is_plain(path)
        if not by_reference:
            self._count_copy(size_of(value))  # subscribers are told all of it
            self._emit(lambda: _operation("remove", source))
        size = 0 if path else size_of(value)
        reached = self._place(path, value, size, tells=not by_reference)
        if by_reference:
            self._emit_reference("move", source, reached)

    def _is_plain(self, path: Path) -> bool:
        """Whether a value can be added there without a parent that is created or converted."""
        try:
            parent = find(self._document.root, path[:-1])
        except PatchFailed:
            return False
        if type(parent) is list:
            return not path or path[-1] == "-" or is_index(path[-1])
        return not path or type(parent) is dict

    def _check_depth(self, path: Path, value: Value) -> None:
        if len(path) + depth_of(value) > self._limits.depth:
            raise too_deep(self._limits.depth)

    def _count_copy(self, size: int) -> None:
        """A change may not make more by copying than a document may hold."""
        self._copied += size
        if self._copied > self._limits.document_bytes:
            raise TooLarge(
                f"the change copies more than {self._limits.document_bytes} bytes; make several"
            )

    # -- putting a value somewhere ----------------------------------------------------------------

    def _place(self, path: Path, value: Value, size: int, tells: bool = True) -> list[str]:
        """Add the value at the path, with parents that are created or converted as the segments
        ask; answers where it is now. `size` is what it adds to the document's size."""
        owner: Any = None
        key: Any = None
        current = self._document.root
        reached: list[str] = []
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
        """A list that is asked for a name becomes an object with its items under "0", "1" …"""
        members = {str(index): item for index, item in enumerate(items)}
        size = size_of(members)
        self._count_copy(size)  # subscribers are told all of it
        self._replace_at(owner, key, members, size)
        self._emit_value("replace", reached, members)
        return members

    # -- the steps, each with its way back --------------------------------------------------------

    def _set_root(self, value: Value, size: int) -> None:
        document = self._document
        self._undo.append((setattr, (document, "root", document.root)))
        document.root, document.size = value, size
        document.escapes = document.escapes or has_bytes_name(value)

    def _replace_at(self, owner: Any, key: Any, value: Value, size: int) -> None:
        """`owner` None: the root."""
        document = self._document
        old = document.root if owner is None else owner[key]
        if owner is None:
            self._undo.append((setattr, (document, "root", old)))
            document.root = value
        else:
            self._undo.append((_restore, (owner, key, old)))
            owner[key] = value
        document.size += size - size_of(old)
        self._note_names(value)

    def _set(self, members: dict[str, Value], name: str, value: Value, size: int) -> None:
        if name in members:
            self._replace_at(members, name, value, size)
            return
        self._undo.append((members.pop, (name,)))
        self._document.size += size + len(text_json(name)) + (2 if members else 1)
        members[name] = value
        self._note_name(name)
        self._note_names(value)

    def _insert(self, items: list[Value], index: int, value: Value, size: int) -> None:
        self._undo.append((items.pop, (index,)))
        self._document.size += size + (1 if items else 0)
        items.insert(index, value)
        self._note_names(value)

    def _take(self, path: Path, counted: bool) -> None:
        parent = find(self._document.root, path[:-1])
        key = _existing_key(parent, path)
        value = parent.pop(key)
        size = size_of(value) if counted else 0
        separators = 1 if parent else 0
        if type(parent) is dict:
            self._undo.append((_restore, (parent, key, value)))
            self._document.size -= size + len(text_json(key)) + 1 + separators
        else:
            self._undo.append((parent.insert, (key, value)))
            self._document.size -= size + separators

    def _note_names(self, value: Value) -> None:
        if not self._document.escapes and type(value) in (list, dict):
            self._document.escapes = has_bytes_name(value)

    def _note_name(self, name: str) -> None:
        if is_bytes_name(name):
            self._document.escapes = True

    # -- telling what was done --------------------------------------------------------------------

    def _emit(self, write: Callable[[], bytes]) -> None:
        if self._emits:
            self.emitted.append(write())

    def _emit_value(self, op: str, path: Iterable[str], value: Value) -> None:
        """Written at once: a later operation may change the value."""
        self._emit(lambda: _operation(op, path, value_json(value, self._document.escapes)))

    def _emit_reference(self, op: str, source: Path, path: list[str]) -> None:
        self._emit(
            lambda: (
                b'{"op":"%b","from":%b,"path":%b}'
                % (op.encode(), text_json(path_text(source)), text_json(path_text(path)))
            )
        )


def _nest(rest: Path, value: Value, size: int) -> tuple[Value, int]:
    """The value inside of the parents that the segments ask for, and what that adds in size."""
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


def _existing_key(parent: Any, path: Path) -> Any:
    """Of what is at the path. Raises `PatchFailed`."""
    if type(parent) is list:
        return existing_index(path[-1], len(parent))
    if type(parent) is not dict or path[-1] not in parent:
        raise _missing(path)
    return path[-1]


def _restore(owner: Any, key: Any, value: Value) -> None:
    owner[key] = value
