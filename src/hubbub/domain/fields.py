"""Types of external fields with their bounds, and their patterns in the OpenAPI document.

Constraints of `Meta` are enforced when a struct is decoded, not when code creates it.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from hubbub.domain.names import MAX_NAME_CHARS, MAX_USER_ID_CHARS


def wire_name(name: str) -> str:
    """Converts a field name to its name on the wire: `session_id` becomes `sessionID`."""
    first, *rest = name.split("_")
    return first + "".join("ID" if word == "id" else word.capitalize() for word in rest)


def whole_numbers(value: Any) -> Any:
    """Converts floats without a fraction to integers: JSON does not distinguish 5.0 and 5."""
    if isinstance(value, dict):
        return {key: whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [whole_numbers(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


_NAME = r"^[^\u0000-\u001f\u007f-\u009f*#]+$"
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS, pattern=_NAME)]
NAME_SCHEMA = {"minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": _NAME}
"""The schema of a name that `domain.names.check_name` checks; violations are reported as
`InvalidName`."""
Text = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=r"^[^\u0000-\u001f\u007f-\u00a0]+$")
]
UserId = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_USER_ID_CHARS, pattern=r"^[^\u0000-\u001f\u007f-\u00a0]+$"),
]
Pattern = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=r"^[^\u0000-\u001f\u007f-\u009f]+$",
        description="A pattern such as `cart.*`.",
    ),
]
Origin = Annotated[
    str,
    Meta(
        max_length=255,
        extra_json_schema={
            "pattern": r"^(\*|null|[a-z][a-z0-9+.-]*://[a-z0-9_.-]+(:([0-9]{1,5}|\*))?)$"
        },
    ),
]
Subject = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="A subject of NATS, which means all below it as well.",
        extra_json_schema={"pattern": r"^[A-Za-z0-9-]{1,60}(\.[A-Za-z0-9_-]{1,60}){0,2}$"},
    ),
]
# What is wrong with a URL or with headers is for `setting_checks` to say, which never quotes them:
# they may hold secrets.
EndpointUrl = Annotated[
    str,
    Meta(
        description="`http://…` or `https://…`, or `nats:` and a subject.",
        extra_json_schema={
            "maxLength": 2048,
            "pattern": r"^(https?://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[1-9][0-9]{0,3})?(/[!-~]*)?"
            r"|nats:[A-Za-z0-9_-]{1,60}(\.[A-Za-z0-9_-]{1,60}){0,2})$",
        },
    ),
]
Headers = Annotated[
    dict[str, Annotated[str, Meta(extra_json_schema={"maxLength": 2048, "pattern": "^[ -~]*$"})]],
    Meta(
        extra_json_schema={
            "maxProperties": 100,
            "propertyNames": {"pattern": "^[A-Za-z0-9-]{1,100}$"},
        },
    ),
]
TimeoutSeconds = Annotated[float, Meta(ge=0.1, le=300)]
Count = Annotated[int, Meta(ge=0, le=10**15)]
"""0 means no limit."""
