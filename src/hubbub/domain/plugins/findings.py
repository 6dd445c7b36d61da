"""The findings of the static analysis of a plugin."""

from __future__ import annotations

import msgspec

from hubbub.domain.plugins.shape import PluginShape

MAX_SOURCE_BYTES = 256 * 1024


class Violation(msgspec.Struct, frozen=True, order=True):
    """A rejected construct. `rule` is a stable identifier; `text` names the construct, `remedy`
    says what to write instead."""

    line: int
    rule: str
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.rule}: {self.text}; {self.remedy}"


class Analysed(msgspec.Struct, frozen=True):
    """A file without violations may run; `shape` lists its commands and hooks."""

    shape: PluginShape
    violations: tuple[Violation, ...] = ()
