"""The base of all settings of a hub."""

from __future__ import annotations

import msgspec

from hubbub.domain.fields import wire_name


class Setting(msgspec.Struct, frozen=True, rename=wire_name, forbid_unknown_fields=True):
    """Base class of settings; unknown fields are rejected by name."""
