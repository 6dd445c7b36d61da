"""The general codec: converts domain structs to records of an encoding, and back.

A record to write is a dictionary keyed by the encoding's names. A decoded record has the fields of
its message as attributes. Subclasses of `Structs` implement the differences between encodings.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from msgspec import NODEFAULT, Struct

from hubbub.domain.errors import HubbubError
from hubbub.domain.payloads import with_media_type
from hubbub.domain.requests import PublishItem
from hubbub.protocols.checks import check_batch, error_from_wire, parse_start
from hubbub.protocols.mapping import (
    ERROR_FIELDS,
    Cardinality,
    Kind,
    MappedField,
    derived_fields,
    error_fields,
    members,
)

S = TypeVar("S", bound=Struct)
Record = dict[str, Any]
Values = dict[str, Any]
Convert = Callable[[Any], Any]
ConvertBack = Callable[[Any, str], Any]
FetchAll = Callable[[Any], Iterable[Any]]
_Write = Callable[[Any, Record], None]
_Read = Callable[[Any, str, Values], None]
_Plain = tuple[str, str, Convert | None, Any]
"""The attribute of a struct, its encoded name, its converter, and the value that is omitted."""


class Structs(abc.ABC):
    """`strict`: the input comes from a client and is checked. `faster`: functions that replace the
    general encoding of a field (`Message.field`)."""

    flattens: bool
    """Whether `flat_in_json` fields are merged into the enclosing message."""

    def __init__(self, strict: bool, faster: Mapping[str, Convert] | None = None) -> None:
        self._strict = strict
        self._faster = faster or {}
        self._writer = cache(self._make_writer)
        self._reader = cache(self._make_reader)

    def record(self, value: Struct, message: Descriptor) -> Record:
        """The value as a record of its message."""
        record: Record = {}
        self._writer(type(value), message).write(value, record)
        return record

    def read(self, struct: type[S], message: Descriptor, record: Any, where: str) -> S:
        """The struct in a record. `where` is the prefix of field names in errors: the event, and
        the path to the record. Raises `Malformed`, `TooLarge`, `InvalidPayload`."""
        return cast("S", self._reader(struct, message).read(record, where))

    def error_record(self, error: HubbubError, message: Descriptor) -> Record:
        return self._error_writer(message)(error)

    # -- what the encodings do differently --------------------------------------------------------

    @abc.abstractmethod
    def name(self, field: FieldDescriptor) -> str: ...

    @abc.abstractmethod
    def fetch_all(self, fields: Sequence[MappedField]) -> FetchAll:
        """Returns a function that reads the values of these fields from a record, None for missing
        ones."""

    @abc.abstractmethod
    def value_writer(self, member: MappedField) -> Convert | None:
        """The converter of one serial, JSON object or byte string; None: unchanged."""

    @abc.abstractmethod
    def value_reader(self, member: MappedField) -> ConvertBack | None: ...

    @abc.abstractmethod
    def write_payload(self, member: MappedField, payload: bytes, content_type: str) -> Record: ...

    @abc.abstractmethod
    def read_payload(self, record: Any, where: str) -> tuple[bytes, str]: ...

    # -- writing ----------------------------------------------------------------------------------

    def _make_writer(self, struct: type[Struct], message: Descriptor) -> _RecordWriter:
        derived = derived_fields(struct, message)
        plain: list[_Plain] = [(each.name, self.name(each), None, NODEFAULT) for each in derived]
        others: list[_Write] = []
        for member in members(struct, message):
            if self._is_flat(member):
                others.append(self._write_flat(member, message))
            elif member.kind is Kind.PAYLOAD:
                others.append(self._write_payload(member))
            elif member.wire.inside or member.wire.unless:
                others.append(self._write_conditionally(member))
            elif member.field is not None:
                plain.append(self._plain(member))
        return _RecordWriter(plain, others)

    def _plain(self, member: MappedField) -> _Plain:
        assert member.field is not None
        writer = self._writer_of(member)
        return member.attribute, self.name(member.field), writer, _omitted(member)

    def _is_flat(self, member: MappedField) -> bool:
        return member.wire.flat or (self.flattens and member.wire.flat_in_json)

    def _write_flat(self, member: MappedField, message: Descriptor) -> _Write:
        attribute = member.attribute
        if member.kind is Kind.ERROR:
            of_error = self._error_writer(message)
            return lambda value, record: record.update(of_error(getattr(value, attribute)))
        inner = self._writer(member.type, member.message or message)

        def write(value: Any, record: Record) -> None:
            found = getattr(value, attribute)
            if found is not None:
                inner.write(found, record)

        return write

    def _write_payload(self, member: MappedField) -> _Write:
        def write(value: Any, record: Record) -> None:
            record.update(self.write_payload(member, value.payload, value.content_type))

        return write

    def _write_conditionally(self, member: MappedField) -> _Write:
        attribute, name, convert, empty = self._plain(member)
        unless, inside = member.wire.unless, member.wire.inside

        def write(value: Any, record: Record) -> None:
            found = getattr(value, attribute)
            if found == empty or (unless and getattr(value, unless) is not None):
                return
            holder = record.setdefault(inside, {}) if inside else record
            holder[name] = found if convert is None else convert(found)

        return write

    def _writer_of(self, member: MappedField) -> Convert | None:
        assert member.field is not None
        faster = self._faster.get(".".join(member.field.full_name.split(".")[-2:]))
        if faster is not None:
            return faster
        one = self._one_writer(member)
        if one is None or member.shape is Cardinality.ONE:
            return one
        if member.shape is Cardinality.LIST:
            return lambda values: [one(each) for each in values]
        return lambda values: {key: one(each) for key, each in values.items()}

    def _one_writer(self, member: MappedField) -> Convert | None:
        message = member.message
        if member.kind in (Kind.SERIAL, Kind.START):
            return str
        if message is None or member.kind in (Kind.DOCUMENT, Kind.OPERATIONS):
            return self.value_writer(member)
        if member.kind is Kind.ERROR:
            return self._error_writer(message)
        return lambda value: self.record(value, message)

    def _error_writer(self, message: Descriptor) -> Callable[[HubbubError], Record]:
        names = [
            (self.name(message.fields_by_name[each]), ERROR_FIELDS[each])
            for each in sorted(error_fields(message))
        ]

        def write(error: HubbubError) -> Record:
            found = ((name, getattr(error, attribute)) for name, attribute in names)
            return {name: value for name, value in found if value is not None}

        return write

    # -- reading ----------------------------------------------------------------------------------

    def _make_reader(self, struct: type[Struct], message: Descriptor) -> _RecordReader:
        plain: list[MappedField] = []
        others: list[_Read] = []
        for member in members(struct, message):
            if self._is_flat(member):
                others.append(self._read_flat(member, message))
            elif member.kind is Kind.PAYLOAD:
                others.append(self._read_payload)
            elif member.field is not None:
                plain.append(member)
        if self._strict and struct is PublishItem:
            others.append(_read_spelling)
        conversions = [(each.attribute, self._reader_of(each)) for each in plain]
        absent = _values_without_default(members(struct, message))
        return _RecordReader(struct, self.fetch_all(plain), conversions, others, absent)

    def _read_flat(self, member: MappedField, message: Descriptor) -> _Read:
        attribute = member.attribute
        if member.kind is Kind.ERROR:
            of_error = _error_reader(message)
            return lambda record, where, values: values.update({attribute: of_error(record, where)})
        inner = self._reader(member.type, member.message or message)
        read_inner = inner.read_any if member.nullable else inner.read

        def read(record: Any, where: str, values: Values) -> None:
            values[attribute] = read_inner(record, where)

        return read

    def _read_payload(self, record: Any, where: str, values: Values) -> None:
        values["payload"], values["content_type"] = self.read_payload(record, where)

    def _reader_of(self, member: MappedField) -> ConvertBack | None:
        assert member.field is not None
        name, one = self.name(member.field), self._one_reader(member)
        if member.shape is Cardinality.LIST:
            return self._list_reader(name, one)
        if one is None:
            return None
        if member.shape is Cardinality.ONE:
            return lambda value, where: one(value, f"{where}{name}")
        return lambda values, where: {
            key: one(each, f"{where}{name}.{key}") for key, each in values.items()
        }

    def _list_reader(self, name: str, one: ConvertBack | None) -> ConvertBack:
        def read(values: Any, where: str) -> tuple[Any, ...]:
            if self._strict:
                check_batch(where.partition(":")[0], len(values))
            if one is None:
                return tuple(values)
            return tuple(
                [one(each, f"{where}{name}[{index}]") for index, each in enumerate(values)]
            )

        return read

    def _one_reader(self, member: MappedField) -> ConvertBack | None:
        message = member.message
        if member.kind is Kind.START:
            return lambda value, where: parse_start(str(value), f"{where}`")
        if message is None or member.kind in (Kind.DOCUMENT, Kind.OPERATIONS):
            return self.value_reader(member)
        if member.kind is Kind.ERROR:
            return _error_reader(message)
        read = self._reader(member.type, message).read
        return lambda value, where: read(value, f"{where}.")


class _RecordWriter:
    """Creates records from structs of one type."""

    __slots__ = ("_fields", "_get", "_others")

    def __init__(self, fields: Sequence[_Plain], others: Sequence[_Write]) -> None:
        self._get = attributes_getter([attribute for attribute, *_ in fields])
        self._fields = [(name, convert, empty) for _, name, convert, empty in fields]
        self._others = others

    def write(self, value: Struct, record: Record) -> None:
        for found, (name, convert, empty) in zip(self._get(value), self._fields, strict=False):
            if found is not None and found != empty:
                record[name] = found if convert is None else convert(found)
        for write in self._others:
            write(value, record)


class _RecordReader:
    """Creates structs of one type from records."""

    __slots__ = ("_absent", "_fetch", "_fields", "_nothing", "_others", "_struct")

    def __init__(
        self,
        struct: type[Struct],
        fetch: FetchAll,
        fields: Sequence[tuple[str, ConvertBack | None]],
        others: Sequence[_Read],
        absent: Values,
    ) -> None:
        self._struct = struct
        self._fetch = fetch
        self._fields = fields
        self._others = others
        self._absent = absent
        self._nothing = (None,) * len(fields)

    def read(self, record: Any, where: str) -> Struct:
        return self._made(self._fetch(record), record, where)

    def read_any(self, record: Any, where: str) -> Struct | None:
        """None if the record has none of the fields."""
        found = tuple(self._fetch(record))
        return None if found == self._nothing else self._made(found, record, where)

    def _made(self, found: Iterable[Any], record: Any, where: str) -> Struct:
        values = self._absent.copy()
        for value, (attribute, convert) in zip(found, self._fields, strict=False):
            if value is not None:
                values[attribute] = value if convert is None else convert(value, where)
        for read in self._others:
            read(record, where, values)
        return self._struct(**values)


def _read_spelling(record: Any, where: str, values: Values) -> None:
    """Applies the publisher's spelling of the content type, after payload and attributes were
    read."""
    attributes = with_media_type(
        values.get("attributes"), values["content_type"], record.content_type
    )
    if attributes is not None:
        values["attributes"] = attributes


def attributes_getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    get = [attrgetter(name) for name in names]
    return lambda value: tuple([each(value) for each in get])


def _omitted(member: MappedField) -> Any:
    """The value that is omitted when written."""
    assert member.field is not None
    has_presence = member.field.has_presence and member.kind is not Kind.SERIAL
    return NODEFAULT if member.keeps_zero or has_presence else member.absent()


def _values_without_default(found: Iterable[MappedField]) -> Values:
    """Values for struct fields without a default that a message may omit."""
    return {each.attribute: each.absent() for each in found if each.default is NODEFAULT}


def _error_reader(message: Descriptor) -> ConvertBack:
    text = "message" if "message" in message.fields_by_name else "reason"
    return lambda record, where: error_from_wire(record.code, getattr(record, text))
