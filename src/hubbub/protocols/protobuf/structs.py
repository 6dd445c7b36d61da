"""The general protobuf codec, based on the descriptors of spec/hubbub.proto."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from google.protobuf.descriptor import FieldDescriptor

from hubbub.domain.errors import Malformed
from hubbub.domain.messages import BINARY
from hubbub.domain.payloads import typed_payload
from hubbub.protocols.checks import parse_serial
from hubbub.protocols.mapping import Cardinality, Kind, MappedField
from hubbub.protocols.protobuf import documents
from hubbub.protocols.structs import Convert, ConvertBack, FetchAll, Record, Structs

_object = msgspec.json.Decoder(dict[str, Any]).decode


class ProtobufStructs(Structs):
    flattens = False

    def name(self, field: FieldDescriptor) -> str:
        return str(field.name)

    def fetch_all(self, fields: Sequence[MappedField]) -> FetchAll:
        fetches = [self._fetcher(each) for each in fields]
        return lambda record: [fetch(record) for fetch in fetches]

    def _fetcher(self, member: MappedField) -> Callable[[Any], Any]:
        assert member.field is not None
        name, inside = member.field.name, member.wire.inside
        fetch: Callable[[Any], Any] = attrgetter(name)
        if inside:
            return lambda record: fetch(getattr(record, inside)) or None
        if member.shape is Cardinality.MAP:
            return lambda record: dict(fetch(record).items())
        if member.shape is Cardinality.LIST:
            # A slice is a list: iterating over the field itself takes eight times as long.
            return lambda record: fetch(record)[:] or None
        if member.keeps_zero and (self._strict or member.kind is not Kind.SERIAL):
            return fetch
        if member.field.has_presence:
            return lambda record: fetch(record) if record.HasField(name) else None
        return lambda record: fetch(record) or None

    def value_writer(self, member: MappedField) -> Convert | None:
        return _WRITERS.get(member.kind)

    def value_reader(self, member: MappedField) -> ConvertBack | None:
        return _READERS.get(member.kind)

    def write_payload(self, member: MappedField, payload: bytes, content_type: str) -> Record:
        if member.wire.optional and content_type == BINARY:
            return {"payload": payload}
        return {"payload": payload, "content_type": content_type}

    def read_payload(self, record: Any, where: str) -> tuple[bytes, str]:
        if self._strict and record.content_type:
            return typed_payload(record.payload, record.content_type)
        return record.payload, record.content_type or BINARY


def _read_serial(text: str, where: str) -> int:
    return parse_serial(text, f"{where}`")


def _read_object(body: bytes, where: str) -> dict[str, Any]:
    try:
        return _object(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"{where}` is not a JSON object: {error}") from None
    except RecursionError:
        raise Malformed(f"{where}` is nested too deeply") from None


_WRITERS: dict[Kind, Convert] = {
    Kind.OBJECT: msgspec.json.encode,
    Kind.DOCUMENT: documents.write_document,
    Kind.OPERATIONS: documents.write_operations,
}
_READERS: dict[Kind, ConvertBack] = {
    Kind.SERIAL: _read_serial,
    Kind.OBJECT: _read_object,
    Kind.DOCUMENT: documents.read_document,
    Kind.OPERATIONS: documents.read_operations,
}
