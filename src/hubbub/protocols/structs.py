"""The general codec: structs of the domain as records of an encoding, and back.

A record that is written is a dictionary by the names of the encoding. A record that is read has
the fields of its message as attributes. What the two encodings do differently is in their
subclasses of `Structs`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from msgspec import NODEFAULT, Struct

from hubbub.domain.errors import HubbubError
from hubbub.protocols.checks import check_batch, error_from_wire, parse_start
from hubbub.protocols.mapping import (
    ERROR_FIELDS,
    Kind,
    Member,
    Shape,
    derived_fields,
    error_fields,
    members,
)

S = TypeVar("S", bound=Struct)
Record = dict[str, Any]
Values = dict[str, Any]
Convert = Callable[[Any], Any]
ConvertBack = Callable[[Any, str], Any]
_Write = Callable[[Any, Record], None]
_Read = Callable[[Any, str, Values], None]


class Structs(abc.ABC):
    """`strict`: what is read was written by a client, and is checked. `faster` are functions that
    write a nested struct as the general way would."""

    flattens: bool
    """Whether fields that are `flat_in_json` lie in the message around them."""

    def __init__(self, strict: bool, faster: Mapping[type, Convert] | None = None) -> None:
        self._strict = strict
        self._faster = faster or {}
        self._writes = cache(self._make_writes)
        self._reads = cache(self._make_reads)

    def record(self, value: Struct, message: Descriptor) -> Record:
        """The value as a record of its message."""
        record: Record = {}
        for write in self._writes(type(value), message):
            write(value, record)
        return record

    def read(self, struct: type[S], message: Descriptor, record: Any, where: str) -> S:
        """The struct that a record holds. `where` begins the name of each field in an error: the
        event, and the path to the record. Raises `Malformed`, `TooLarge`, `InvalidPayload`."""
        values: Values = {}
        for read in self._reads(struct, message):
            read(record, where, values)
        return struct(**values)

    def error_record(self, error: HubbubError, message: Descriptor) -> Record:
        return self._error_writer(message)(error)

    # -- what the encodings do differently --------------------------------------------------------

    @abc.abstractmethod
    def name(self, field: FieldDescriptor) -> str: ...

    @abc.abstractmethod
    def fetcher(self, member: Member) -> Callable[[Any], Any]:
        """Answers the value that a record has for the field, None where it has none."""

    @abc.abstractmethod
    def value_writer(self, member: Member) -> Convert | None:
        """For one serial, JSON object or byte string; None: as it is."""

    @abc.abstractmethod
    def value_reader(self, member: Member) -> ConvertBack | None: ...

    @abc.abstractmethod
    def write_payload(self, member: Member, payload: bytes, content_type: str) -> Record: ...

    @abc.abstractmethod
    def read_payload(self, record: Any, where: str) -> tuple[bytes, str]: ...

    # -- writing ----------------------------------------------------------------------------------

    def _make_writes(self, struct: type[Struct], message: Descriptor) -> tuple[_Write, ...]:
        found = [self._write(each, message) for each in members(struct, message)]
        names = [(each.name, self.name(each)) for each in derived_fields(struct, message)]
        return (*(each for each in found if each is not None), *map(_write_derived, names))

    def _write(self, member: Member, message: Descriptor) -> _Write | None:
        if member.wire.local:
            return None
        if self._is_flat(member):
            return self._write_flat(member, message)
        if member.kind is Kind.PAYLOAD:
            return self._write_payload(member)
        return self._write_field(member)

    def _is_flat(self, member: Member) -> bool:
        return member.wire.flat or (self.flattens and member.wire.flat_in_json)

    def _write_flat(self, member: Member, message: Descriptor) -> _Write:
        attribute, struct, within = member.attribute, member.type, member.message or message
        of_error = self._error_writer(message)

        def write(value: Any, record: Record) -> None:
            inner = getattr(value, attribute)
            if isinstance(inner, HubbubError):
                record.update(of_error(inner))
            elif inner is not None:
                for each in self._writes(struct, within):
                    each(inner, record)

        return write

    def _write_payload(self, member: Member) -> _Write:
        def write(value: Any, record: Record) -> None:
            record.update(self.write_payload(member, value.payload, value.content_type))

        return write

    def _write_field(self, member: Member) -> _Write:
        assert member.field is not None
        attribute, name = member.attribute, self.name(member.field)
        unless, inside = member.wire.unless, member.wire.inside
        convert, empty = self._writer_of(member), _omitted(member)

        def write(value: Any, record: Record) -> None:
            found = getattr(value, attribute)
            if found is None or found == empty or (unless and getattr(value, unless) is not None):
                return
            holder = record.setdefault(inside, {}) if inside else record
            holder[name] = found if convert is None else convert(found)

        return write

    def _writer_of(self, member: Member) -> Convert | None:
        one = self._one_writer(member)
        if one is None or member.shape is Shape.ONE:
            return one
        if member.shape is Shape.LIST:
            return lambda values: [one(each) for each in values]
        return lambda values: {key: one(each) for key, each in values.items()}

    def _one_writer(self, member: Member) -> Convert | None:
        message = member.message
        if member.kind is Kind.STRUCT:
            assert message is not None
            faster = self._faster.get(member.type)
            return faster or (lambda value: self.record(value, message))
        if member.kind is Kind.ERROR:
            assert message is not None
            return self._error_writer(message)
        if member.kind in (Kind.SERIAL, Kind.START):
            return str
        return self.value_writer(member)

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

    def _make_reads(self, struct: type[Struct], message: Descriptor) -> tuple[_Read, ...]:
        return tuple(self._read(each, message) for each in members(struct, message))

    def _read(self, member: Member, message: Descriptor) -> _Read:
        if member.wire.local:
            return _read_nothing(member)
        if self._is_flat(member):
            return self._read_flat(member, message)
        if member.kind is Kind.PAYLOAD:
            return self._read_payload
        return self._read_field(member)

    def _read_flat(self, member: Member, message: Descriptor) -> _Read:
        attribute, struct, within = member.attribute, member.type, member.message or message
        if member.kind is Kind.ERROR:
            of_error = _error_reader(message)
            return lambda record, where, values: values.update({attribute: of_error(record, where)})
        empty = struct() if member.nullable else None

        def read(record: Any, where: str, values: Values) -> None:
            found = self.read(struct, within, record, where)
            if found != empty:
                values[attribute] = found

        return read

    def _read_payload(self, record: Any, where: str, values: Values) -> None:
        values["payload"], values["content_type"] = self.read_payload(record, where)

    def _read_field(self, member: Member) -> _Read:
        assert member.field is not None
        attribute, fetch = member.attribute, self.fetcher(member)
        convert, otherwise = self._reader_of(member), _read_nothing(member)

        def read(record: Any, where: str, values: Values) -> None:
            found = fetch(record)
            if found is None:
                otherwise(record, where, values)
            else:
                values[attribute] = found if convert is None else convert(found, where)

        return read

    def _reader_of(self, member: Member) -> ConvertBack | None:
        assert member.field is not None
        name, one = self.name(member.field), self._one_reader(member)
        if member.shape is Shape.ONE:
            if one is None:
                return None
            return lambda value, where: one(value, f"{where}{name}")
        if member.shape is Shape.MAP:
            read = one or _as_it_is
            return lambda values, where: {
                key: read(each, f"{where}{name}.{key}") for key, each in values.items()
            }
        return self._list_reader(name, one)

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

    def _one_reader(self, member: Member) -> ConvertBack | None:
        struct, message = member.type, member.message
        if member.kind is Kind.STRUCT:
            assert message is not None
            return lambda value, where: self.read(struct, message, value, f"{where}.")
        if member.kind is Kind.ERROR:
            assert message is not None
            return _error_reader(message)
        if member.kind is Kind.START:
            return lambda value, where: parse_start(str(value), f"{where}`")
        return self.value_reader(member)


def _omitted(member: Member) -> Any:
    """The value that is not written."""
    assert member.field is not None
    has_presence = member.field.has_presence and member.kind is not Kind.SERIAL
    return NODEFAULT if member.keeps_zero or has_presence else member.absent()


def _write_derived(names: tuple[str, str]) -> _Write:
    attribute, name = names

    def write(value: Any, record: Record) -> None:
        record[name] = getattr(value, attribute)

    return write


def _read_nothing(member: Member) -> _Read:
    """The struct's own default applies, where it has one."""
    attribute, absent = member.attribute, member.absent
    if member.default is not NODEFAULT:
        return lambda record, where, values: None

    def read(record: Any, where: str, values: Values) -> None:
        values[attribute] = absent()

    return read


def _error_reader(message: Descriptor) -> ConvertBack:
    text = "message" if "message" in message.fields_by_name else "reason"
    return lambda record, where: error_from_wire(record.code, getattr(record, text))


def _as_it_is(value: Any, where: str) -> Any:
    return value


def attribute_of(member: Member) -> Callable[[Any], Any]:
    """Answers the attribute of a record that has the field's name."""
    assert member.field is not None
    return attrgetter(member.field.name)
