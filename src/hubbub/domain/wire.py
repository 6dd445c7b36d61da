"""How a field of an event's struct lies in the event's message of spec/hubbub.proto.

A field of a struct is the field of the message with the same name, unless its annotation holds a
`Wire` that says otherwise. Types need no annotation: they follow from the two declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    derived = property
else:

    class derived(property):
        """A property that is a field of the message: written from the other fields, never read."""


class Wire(msgspec.Struct, frozen=True):
    name: str = ""
    """Of the message's field, where the struct's field has another name."""
    inside: str = ""
    """The field of the message that holds this one."""
    flat: bool = False
    """The fields of this struct are fields of the message around it ..."""
    flat_in_json: bool = False
    """... or only in JSON, because protobuf tells the absence of one field faster than of many."""
    local: bool = False
    """Not on the wire."""
    always: bool = False
    """JSON writes the field also while it has its default; a zero is a value."""
    unless: str = ""
    """Like `always`, except where this other field is set."""
    optional: bool = False
    """JSON leaves the field out while it is empty, although the struct has no default for it."""


ALWAYS = Wire(always=True)
FLAT = Wire(flat=True)
LOCAL = Wire(local=True)
OPTIONAL = Wire(optional=True)
