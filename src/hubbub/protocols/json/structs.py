"""The general JSON codec: `msgspec` decodes and validates with types derived from the structs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from msgspec import Meta, Struct

from hubbub.domain.documents.text import JsonList, JsonText
from hubbub.domain.messages import BINARY, TEXT
from hubbub.domain.payloads import is_utf8, typed_payload
from hubbub.protocols.checks import MAX_SERIAL
from hubbub.protocols.json.payloads import (
    EncodedPayload,
    given_payload,
    read_payload,
    write_payload,
)
from hubbub.protocols.mapping import (
    Cardinality,
    Kind,
    MappedField,
    derived_fields,
    error_fields,
    members,
)
from hubbub.protocols.structs import (
    Convert,
    ConvertBack,
    FetchAll,
    Record,
    Structs,
    attributes_getter,
)

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Serial = (
    Annotated[str, Meta(pattern=r"\A[0-9]{1,18}\Z")] | Annotated[int, Meta(ge=0, le=MAX_SERIAL)]
)
"""Written as a string, because JavaScript's integers end at 2^53."""

_SCALARS: dict[int, Any] = {
    FieldDescriptor.TYPE_STRING: str,
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_INT64: Int64,
    FieldDescriptor.TYPE_INT32: Int32,
    FieldDescriptor.TYPE_DOUBLE: float,
}
_KINDS: dict[Kind, Any] = {
    Kind.SERIAL: Serial,
    Kind.START: str | Int64,
    Kind.OBJECT: dict[str, Any],
    Kind.BYTES: EncodedPayload,
    Kind.PAYLOAD: EncodedPayload,
    Kind.DOCUMENT: msgspec.Raw,
    Kind.OPERATIONS: msgspec.Raw,
}
_Types = dict[str, "_Field"]
"""Fields by their names in the .proto."""


class JsonStructs(Structs):
    flattens = True

    def name(self, field: FieldDescriptor) -> str:
        return str(field.json_name)

    def fetch_all(self, fields: Sequence[MappedField]) -> FetchAll:
        names = [each.field.name for each in fields if each.field is not None]
        if not any(each.wire.inside for each in fields):
            return attributes_getter(names)
        paths = [(each.wire.inside, name) for each, name in zip(fields, names, strict=True)]
        return lambda record: [_fetched(record, *path) for path in paths]

    def value_writer(self, member: MappedField) -> Convert | None:
        if member.kind in (Kind.DOCUMENT, Kind.OPERATIONS):
            return lambda found: msgspec.Raw(found.text)
        return _write_bytes if member.kind is Kind.BYTES else None

    def value_reader(self, member: MappedField) -> ConvertBack | None:
        if member.kind is Kind.SERIAL:
            return lambda value, where: int(value)
        if member.kind is Kind.BYTES:
            return lambda value, where: given_payload(value, f"{where}`")[0]
        if member.kind is Kind.DOCUMENT:
            return lambda value, where: JsonText(bytes(value)) if value else None
        if member.kind is Kind.OPERATIONS:
            return lambda value, where: JsonList(bytes(value))
        return None

    def write_payload(self, member: MappedField, payload: bytes, content_type: str) -> Record:
        body, said = write_payload(payload, content_type)
        return {"payload": body} if said is None else {"payload": body, "contentType": said}

    def read_payload(self, record: Any, where: str) -> tuple[bytes, str]:
        if not self._strict:
            body, written_as = read_payload(record.payload)
            return body, record.content_type or written_as
        body, written_as = given_payload(record.payload, f"{where}payload`")
        if record.content_type:
            return typed_payload(body, record.content_type)
        return body, written_as


def _fetched(record: Any, inside: str, name: str) -> Any:
    holder = getattr(record, inside) if inside else record
    return None if holder is None else getattr(holder, name)


def _write_bytes(body: bytes) -> EncodedPayload:
    return write_payload(body, TEXT if is_utf8(body) else BINARY)[0]


# -- the types that are read ----------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    type: Any
    required: bool = False


@cache
def json_type(structs: tuple[type[Struct], ...], message: Descriptor) -> type[Struct]:
    """The type to decode for a message that holds one of these structs. Clients may write null for
    an omitted field."""
    types = [_types(struct, message) for struct in structs]
    found: _Types = {}
    for each in types:
        found |= each
    for name, field in found.items():
        if not all(name in each for each in types):
            found[name] = field._replace(required=False)
    return _defined(message, found)


def _types(struct: type[Struct], message: Descriptor) -> _Types:
    types = _plain_types(derived_fields(struct, message))
    inside: dict[str, _Types] = {}
    for member in members(struct, message):
        if member.wire.inside:
            inside.setdefault(member.wire.inside, {}).update(_field_types(member))
        else:
            types |= _member_types(member, message)
    for name, held in inside.items():
        holder = message.fields_by_name[name].message_type
        assert holder is not None
        types[name] = _Field(name, _defined(holder, held))
    return types


def _field_types(member: MappedField) -> _Types:
    field = member.field
    assert field is not None
    return {field.name: _Field(field.json_name, _type(member), member.required)}


def _member_types(member: MappedField, message: Descriptor) -> _Types:
    if member.wire.local:
        return {}
    if member.wire.flat or member.wire.flat_in_json:
        if member.kind is Kind.ERROR:
            return _error_types(message)
        return _types(member.type, member.message or message)
    types = _field_types(member)
    if member.kind is Kind.PAYLOAD:
        types |= _plain_types([message.fields_by_name["content_type"]])
    return types


def _type(member: MappedField) -> Any:
    one = _type_of_one(member)
    if member.shape is Cardinality.MAP:
        return dict[str, one]  # type: ignore[valid-type]
    return _tuple_of(one) if member.shape is Cardinality.LIST else one


def _type_of_one(member: MappedField) -> Any:
    assert member.field is not None
    if member.kind in _KINDS:
        return _KINDS[member.kind]
    if member.message is None:
        return _SCALARS[member.field.type]
    if member.kind is Kind.ERROR:
        return _defined(member.message, _error_types(member.message))
    return json_type((member.type,), member.message)


def _error_types(message: Descriptor) -> _Types:
    types = _plain_types(message.fields_by_name[name] for name in sorted(error_fields(message)))
    return {name: each._replace(required=name != "retry_after") for name, each in types.items()}


def _plain_types(fields: Iterable[FieldDescriptor]) -> _Types:
    return {each.name: _Field(each.json_name, _of_descriptor(each)) for each in fields}


def _of_descriptor(field: FieldDescriptor) -> Any:
    one = _SCALARS[field.type]
    return _tuple_of(one) if field.is_repeated else one


def _tuple_of(one: Any) -> Any:
    return tuple[one, ...]


def _defined(message: Descriptor, types: _Types) -> type[Struct]:
    given = [(name, each.type) for name, each in types.items() if each.required]
    others = [(name, *_optional(each.type)) for name, each in types.items() if not each.required]
    names = {name: each.name for name, each in types.items()}
    fields: list[Any] = [*given, *others]
    return msgspec.defstruct(message.name, fields, rename=names, omit_defaults=True, gc=False)


def _optional(kind: Any) -> tuple[Any, Any]:
    """The type of an optional field, and its value if omitted. `null` is a valid document."""
    return (kind, msgspec.Raw()) if kind is msgspec.Raw else (kind | None, None)
