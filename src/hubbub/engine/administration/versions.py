"""Versions of settings: the precondition of a change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from hubbub.domain.errors import VersionMismatch

T = TypeVar("T")
U = TypeVar("U")


class Versioned(msgspec.Struct, Generic[T], frozen=True):
    """A setting with its version. Version 0: nobody has set it, and the default applies. `created`:
    the change created it."""

    name: str
    value: T
    version: int
    created: bool = False

    def map(self, change: Callable[[T], U]) -> Versioned[U]:
        """The setting with its value converted by `change`; name and version are kept."""
        return Versioned(self.name, change(self.value), self.version, self.created)


class Condition(msgspec.Struct, frozen=True):
    """The precondition of a change: one of these versions, or that the setting exists, or that it
    does not exist. Empty: no condition."""

    versions: frozenset[int] | None = None
    exists: bool = False
    absent: bool = False

    @property
    def is_given(self) -> bool:
        return self.versions is not None or self.exists or self.absent

    def check(self, version: int) -> None:
        """Raises `VersionMismatch`. Version 0 means that the setting does not exist."""
        if self.versions is not None and version not in self.versions:
            wanted = ", ".join(map(str, sorted(self.versions)))
            raise VersionMismatch(
                f"it is at version {version}, not {wanted or 'any that was named'}; "
                "read it again and repeat the change"
            )
        if self.exists and not version:
            raise VersionMismatch("it does not exist, and the change was for an existing one")
        if self.absent and version:
            raise VersionMismatch(f"it exists already, at version {version}")


ANY_VERSION = Condition()
