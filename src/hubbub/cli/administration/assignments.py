"""`KEY=VALUE` arguments: changes of settings, checked against the known settings."""

from __future__ import annotations

import copy
import difflib
from typing import Any

import msgspec

from hubbub.cli.failures import WRONG, fail

_WORDS = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


def assign(
    before: dict[str, Any], assignments: tuple[str, ...], defaults: dict[str, Any]
) -> dict[str, Any]:
    """Applies the changes to the settings `before`; `defaults` has all settings with values of
    their types. Nested settings have a dot in their key: `quotas.sessions=100`."""
    changed = copy.deepcopy(before)
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            fail(f"{assignment!r} is not KEY=VALUE, such as {_example(defaults)}", WRONG)
        default = _default(key, defaults)
        *parents, last = key.split(".")
        inner = changed
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = _value(key, text, default)
    return changed


def _default(key: str, defaults: dict[str, Any]) -> object:
    found: object = defaults
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            fail(f"there is no setting {key!r}; {_nearest(key, defaults)}", WRONG)
        found = found[part]
    return found


def _nearest(key: str, defaults: dict[str, Any]) -> str:
    names = {name.lower(): name for name in _names(defaults)}
    plain = key.lower().replace("_", "").replace("-", "")
    close = difflib.get_close_matches(plain, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {names[close[0]]}?"
    return f"there are {', '.join(names.values())}"


def names_of(settings: dict[str, Any]) -> str:
    """The names of the settings, for the help of a command."""
    return ", ".join(_names(settings))


def _names(settings: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in settings.items():
        inner = _names(value, f"{prefix}{name}.") if isinstance(value, dict) else []
        found += inner or [f"{prefix}{name}"]
    return found


def _value(key: str, text: str, default: object) -> object:
    """Converts by the default's type; a setting without a default is a name, or None if the text is
    empty."""
    if isinstance(default, bool):
        if text.lower() not in _WORDS:
            fail(f"{key} is on or off, not {text!r}", WRONG)
        return _WORDS[text.lower()]
    if isinstance(default, int):
        if not (text.isascii() and text.isdigit()):
            fail(f"{key} is a whole number, not {text!r}", WRONG)
        return int(text)
    if default is None:
        return text or None
    if isinstance(default, str):
        return text
    if isinstance(default, dict) or text.startswith("["):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            fail(f"{key} is not JSON: {error}", WRONG)
    return [part.strip() for part in text.split(",") if part.strip()]


def _example(defaults: dict[str, Any]) -> str:
    return next(f"{name}=on" for name, value in defaults.items() if isinstance(value, bool))
