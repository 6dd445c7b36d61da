"""Writes web/sdk/src/schema.ts from spec/hubbub.proto and the table of events, after `make proto`.

A message is a line of fields, each a name, a type and, unless it is 1, the step to its number. The
types: none a text, `b` boolean, `i` integer, `d` double, `j` JSON as bytes, `p` a payload beside
its content type, or credentials, `v` a value of a document, `A` the attributes, whose fields stand
in the message itself, a number in `<>` another message by its line. `?` after the type: a default
value is sent, too; `*`: repeated.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field

from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.events import NOTICES, REQUESTS

TARGET = Path(__file__).parents[1] / "web" / "sdk" / "src" / "schema.ts"
SCALARS = {
    Field.TYPE_STRING: "s",
    Field.TYPE_BOOL: "b",
    Field.TYPE_INT64: "i",
    Field.TYPE_INT32: "i",
    Field.TYPE_DOUBLE: "d",
    Field.TYPE_ENUM: "i",
}
UNUSED = {"TopicList", "TopicSubscriptions"}
"""Events that this SDK has no function for: it neither sends nor reads them."""
BYTES = {"payload": "p", "credentials": "p"}


def field_text(field: Any, step: int, wanted: list[Any]) -> str:
    """The step to the number of the field is left out where it is 1."""
    number = "" if step == 1 else str(step)
    repeated = "*" if field.is_repeated else ""
    if field.type == Field.TYPE_MESSAGE:
        message = field.message_type
        if message.name == "DocumentValue":
            return f"{field.json_name} v{repeated}{number}"
        if message.name == "Attributes":
            wanted.append(message)
            return f"{field.json_name} A{number}"
        wanted.append(message)
        return f"{field.json_name} <{message.name}>{repeated}{number}"
    kind = BYTES.get(field.name, "j") if field.type == Field.TYPE_BYTES else SCALARS[field.type]
    optional = "?" if field.has_presence else ""
    text = f"{kind if kind != 's' else ''}{optional}{repeated}{number}"
    return f"{field.json_name} {text}".rstrip()


def _is_used(field: Any) -> bool:
    """Maps are in the answer to a get of all topics only, which this SDK does not ask for."""
    message = field.message_type
    return message is None or not message.GetOptions().map_entry


_ORDER = list(pb.DESCRIPTOR.message_types_by_name)
"""The order of the messages in the bundle: that of spec/hubbub.proto from its end, which compresses
well and does not depend on where events are registered."""


def schema() -> str:
    requests, notices = (
        sorted(
            (each for each in events if each.name not in UNUSED),
            key=lambda each: -_ORDER.index(each.message_name),
        )
        for events in (REQUESTS, NOTICES)
    )
    events = {event.name: event.number for event in (*requests, *notices)}
    asked = {event.name: event.message for event in requests}
    told = {event.name: event.message for event in notices}
    wanted = [*asked.values(), *told.values()]
    lines: dict[str, str] = {}
    while wanted:
        message = wanted.pop(0)
        if message.name not in lines:
            fields = sorted(filter(_is_used, message.fields), key=lambda field: field.number)
            steps = [
                b.number - a for a, b in zip([0, *(f.number for f in fields)], fields, strict=False)
            ]
            lines[message.name] = ",".join(
                field_text(field, step, wanted) for field, step in zip(fields, steps, strict=True)
            )
    at = {name: index for index, name in enumerate(lines)}
    rows = []
    for name, number in sorted(events.items(), key=lambda each: each[1]):
        row = [name, str(number), *(at[m[name].name] if name in m else "" for m in (asked, told))]
        rows.append(" ".join(str(each) for each in row))
    messages = [
        re.sub(r"<(\w+)>", lambda found: f"<{at[found[1]]}>", text) for text in lines.values()
    ]
    attributes = at["Attributes"]
    return (
        "// Written by scripts/generate_sdk_schema.py from spec/hubbub.proto.\n\n"
        "/** Name, number, message of the client, message of the hub. */\n"
        "export const EVENTS = `\\\n" + "\n".join(rows) + "`;\n\n"
        "export const MESSAGES = `\\\n"
        + "\n".join(messages)
        + f"`;\n\nexport const ATTRIBUTES = {attributes};\n"
    )


if __name__ == "__main__":
    TARGET.write_text(schema())
