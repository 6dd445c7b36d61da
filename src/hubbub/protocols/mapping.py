"""The mapping of domain structs to the messages of spec/hubbub.proto, derived from the two
declarations, for every encoding. Raises `TypeError` at import if they do not match."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from msgspec import NODEFAULT, Struct

from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.errors import HubbubError
from hubbub.domain.wire import Wire, derived

_NO_WIRE = Wire()
_ZEROS: dict[Any, Callable[[], Any]] = {kind: kind for kind in (str, int, bool, float, bytes, dict)}
_SCALARS = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_INT64: int,
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_DOUBLE: float,
}


_STARTS = ("new", "first")


class Kind(enum.Enum):
    """The kind of a field's value, in the struct and in the message."""

    PLAIN = enum.auto()
    SERIAL = enum.auto()
    """An integer as a string: JavaScript's integers end at 2^53."""
    START = enum.auto()
    """`new`, `first` or a serial, as a string."""
    ERROR = enum.auto()
    """An error, as code and message."""
    OBJECT = enum.auto()
    """A JSON object, as bytes in protobuf."""
    BYTES = enum.auto()
    PAYLOAD = enum.auto()
    """Bytes whose content type is another field of the struct; the annotation of the payload
    applies."""
    STRUCT = enum.auto()
    DOCUMENT = enum.auto()
    """The JSON text of a document's value, as a DocumentValue in protobuf."""
    OPERATIONS = enum.auto()
    """The JSON text of a list of operations, as a list of DocumentOp in protobuf."""


DOCUMENTS = {JsonText: Kind.DOCUMENT, JsonList: Kind.OPERATIONS}


class Cardinality(enum.Enum):
    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()


class MappedField(NamedTuple):
    """A field of a struct with the corresponding field of the message. Without one, the struct's
    field is local, or a struct or error whose own fields are fields of the message."""

    attribute: str
    wire: Wire
    field: FieldDescriptor | None
    kind: Kind
    shape: Cardinality
    type: Any
    """The type of a single value in the struct."""
    message: Descriptor | None
    """The message type of a single value on the wire, if it is a message."""
    nullable: bool
    required: bool
    """Whether the sender must set the field."""
    absent: Callable[[], Any]
    """Creates the value of the struct's field if the message does not have it."""
    default: Any
    """NODEFAULT if the struct has no default."""

    @property
    def keeps_zero(self) -> bool:
        """Whether an empty value is written and does not stand for the default."""
        if self.wire.always or self.wire.unless:
            return True
        return self.default is NODEFAULT and not (self.nullable or self.wire.optional)


def descriptor(message: type[Message]) -> Descriptor:
    return cast("Descriptor", message.DESCRIPTOR)


@cache
def members(struct: type[Struct], message: Descriptor) -> tuple[MappedField, ...]:
    """The members for each field of the struct, in order; a content type is part of its payload's
    member."""
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    content_type = fields.pop("content_type", None)
    found = [_member(struct, message, field) for field in fields.values()]
    if content_type is None:
        return tuple(found)
    wire = _unwrap(content_type.type)[1]
    return tuple(
        each._replace(kind=Kind.PAYLOAD, wire=wire) if each.attribute == "payload" else each
        for each in found
    )


def derived_fields(struct: type[Struct], message: Descriptor) -> list[FieldDescriptor]:
    """Fields of the message that are derived from other fields of the struct."""
    return [
        field for field in message.fields if isinstance(getattr(struct, field.name, None), derived)
    ]


def covered(struct: type[Struct], message: Descriptor) -> set[str]:
    """The names of the message's fields that the struct covers."""
    names = {field.name for field in derived_fields(struct, message)}
    for member in members(struct, message):
        names |= _covered(member, message)
    return names


def _covered(member: MappedField, message: Descriptor) -> set[str]:
    if member.wire.inside:
        return {member.wire.inside}
    if member.field is not None:
        return {member.field.name} | ({"content_type"} if member.kind is Kind.PAYLOAD else set())
    if member.wire.local:
        return set()
    return error_fields(message) if member.kind is Kind.ERROR else covered(member.type, message)


ERROR_FIELDS = {
    "code": "code",
    "message": "message",
    "reason": "message",
    "retry": "retry",
    "reconnect": "reconnect",
    "retry_after": "retry_after",
}
"""Fields of an error in messages, and the matching attributes."""


def error_fields(message: Descriptor) -> set[str]:
    return ERROR_FIELDS.keys() & set(message.fields_by_name)


def _member(
    struct: type[Struct], message: Descriptor, info: msgspec.structs.FieldInfo
) -> MappedField:
    found, wire, nullable = _unwrap(info.type)
    field = _field(struct, message, info.name, wire)
    shape, of_one = _shape(found, field)
    return MappedField(
        info.name,
        wire,
        field,
        _kind(struct, info.name, of_one, field),
        shape,
        of_one,
        _message_of(field, shape),
        nullable,
        info.required and not (nullable or wire.optional or wire.local),
        _absent(info, shape, of_one, nullable),
        _default(info),
    )


def _unwrap(annotation: Any) -> tuple[Any, Wire, bool]:
    """Returns the type without its annotation and without None."""
    wire = _NO_WIRE
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        wire = next((each for each in metadata if isinstance(each, Wire)), _NO_WIRE)
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation, wire, False
    kept = tuple(each for each in get_args(annotation) if each is not type(None))
    return (kept[0] if len(kept) == 1 else kept), wire, len(kept) < len(get_args(annotation))


def _field(
    struct: type[Struct], message: Descriptor, attribute: str, wire: Wire
) -> FieldDescriptor | None:
    if wire.local or wire.flat:
        return None
    where = message
    if wire.inside:
        holder = message.fields_by_name[wire.inside].message_type
        assert holder is not None
        where = holder
    name = wire.name or attribute
    try:
        return where.fields_by_name[name]
    except KeyError:
        raise TypeError(
            f"{struct.__name__}.{attribute}: {where.name} has no field `{name}`; add the field to "
            "spec/hubbub.proto, or annotate the struct's field with another name"
        ) from None


def _shape(found: Any, field: FieldDescriptor | None) -> tuple[Cardinality, Any]:
    """Returns whether the field is single, a list or a mapping, and the type of a value."""
    origin, inner = get_origin(found), get_args(found)
    if field is None or not field.is_repeated or found is JsonList:
        return Cardinality.ONE, origin if origin is dict else found
    if origin is dict:
        return Cardinality.MAP, inner[1]
    return Cardinality.LIST, inner[0] if origin is tuple else found


def _message_of(field: FieldDescriptor | None, shape: Cardinality) -> Descriptor | None:
    if field is None:
        return None
    if shape is Cardinality.MAP:
        assert field.message_type is not None
        return field.message_type.fields_by_name["value"].message_type
    return field.message_type


def _kind(struct: type[Struct], attribute: str, found: Any, field: FieldDescriptor | None) -> Kind:
    if found is HubbubError:
        return Kind.ERROR
    if found in DOCUMENTS:
        return DOCUMENTS[found]
    if isinstance(found, type) and issubclass(found, Struct):
        return Kind.STRUCT
    if field is None:
        return Kind.PLAIN
    pairs = {
        (int, FieldDescriptor.TYPE_STRING): Kind.SERIAL,
        (dict, FieldDescriptor.TYPE_BYTES): Kind.OBJECT,
        (bytes, FieldDescriptor.TYPE_BYTES): Kind.BYTES,
    }
    if isinstance(found, tuple) and Literal[_STARTS] in found:
        return Kind.START
    if _SCALARS.get(field.type) is found:
        return Kind.PLAIN
    try:
        return pairs[found, field.type]
    except KeyError:
        raise TypeError(
            f"{struct.__name__}.{attribute} is {found} and its field `{field.name}` of "
            f"{field.containing_type and field.containing_type.name} is of type {field.type}"
        ) from None


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not NODEFAULT:
        return info.default_factory()
    return info.default


def _absent(
    info: msgspec.structs.FieldInfo, shape: Cardinality, of_one: Any, nullable: bool
) -> Callable[[], Any]:
    if info.default_factory is not NODEFAULT:
        return info.default_factory  # type: ignore[no-any-return]
    if info.default is not NODEFAULT:
        value = info.default
        return lambda: value
    if nullable:
        return lambda: None
    return {Cardinality.LIST: tuple, Cardinality.MAP: dict}.get(
        shape, _ZEROS.get(of_one, lambda: None)
    )
