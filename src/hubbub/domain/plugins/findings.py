"""What the static analysis of a plugin finds."""

from __future__ import annotations

import msgspec

from hubbub.domain.plugins.shape import Shape

MAX_SOURCE_BYTES = 256 * 1024


class Violation(msgspec.Struct, frozen=True, order=True):
    """One construct that is refused. `rule` is stable; `text` names the construct, `remedy` says
    what to write instead."""

    line: int
    rule: str
    text: str
    remedy: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.rule}: {self.text}; {self.remedy}"


class Analysed(msgspec.Struct, frozen=True):
    """Without violations, the file may run and `shape` says what it offers."""

    shape: Shape
    violations: tuple[Violation, ...] = ()
