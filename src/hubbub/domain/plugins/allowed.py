"""The subset of Python that a command plugin may use: modules, names of modules, builtins.

Allowed modules expose only their public interface: their own imports, such as `json.codecs` or
`statistics.sys`, would lead to everything. Functions that access attributes by a name in a string
are excluded, since the analysis does not read strings.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import decimal
import itertools
import json
import math
import re
import statistics
from collections.abc import Mapping
from types import ModuleType


def _public(module: ModuleType) -> frozenset[str]:
    names = getattr(module, "__all__", None) or [
        name for name in vars(module) if not name.startswith("_")
    ]
    return frozenset(
        name for name in names if not isinstance(getattr(module, name, None), ModuleType)
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MODULES: Mapping[str, frozenset[str]] = {
    "asyncio": frozenset({"sleep"}),
    "collections": _public(collections),
    "collections.abc": _public(collections.abc),
    "datetime": _public(datetime),
    "decimal": _public(decimal),
    # Not `wraps` and `update_wrapper`, which copy attributes by name, nor `singledispatch`, which
    # evaluates annotations.
    "functools": frozenset({"cache", "cmp_to_key", "lru_cache", "partial", "reduce"}),
    "itertools": _public(itertools),
    "json": _public(json),
    "math": _public(math),
    "re": _public(re),
    "statistics": _public(statistics),
}

FORBIDDEN_NAMES = _words(
    "eval exec compile open input __import__ globals locals vars getattr setattr delattr breakpoint"
    " dir id help print exit quit memoryview"
)

BUILTINS = _words(
    "abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex dict"
    " divmod enumerate filter float format frozenset hasattr hash hex int isinstance issubclass"
    " iter len list map max min next object oct ord pow property range repr reversed round set"
    " slice sorted staticmethod str sum super tuple zip"
    " True False None NotImplemented Ellipsis"
)
"""Allowed builtins, besides exceptions and `type` with one argument."""

INTERNALS = _words(
    # frames
    "f_back f_builtins f_code f_globals f_lasti f_lineno f_locals f_trace f_trace_lines"
    " f_trace_opcodes"
    # tracebacks
    " tb_frame tb_lasti tb_lineno tb_next with_traceback"
    # generators, coroutines, asynchronous generators
    " gi_code gi_frame gi_running gi_suspended gi_yieldfrom cr_await cr_code cr_frame cr_origin"
    " cr_running cr_suspended ag_await ag_code ag_frame ag_running ag_suspended"
    # functions of older Pythons, classes
    " func_closure func_code func_defaults func_dict func_globals mro"
)
"""Attributes that lead from a value to its frame, code or class."""

_INTERNAL_PREFIXES = ("co_",)

NAMED_TUPLE = _words("_asdict _field_defaults _fields _make _replace")
"""The public interface of named tuples, which begins with underscores."""


def is_internal(attribute: str) -> bool:
    """Whether the attribute leads to a frame, to code or to classes."""
    return attribute in INTERNALS or attribute.startswith(_INTERNAL_PREFIXES)


def is_private(attribute: str) -> bool:
    """Whether the attribute is private: some private functions of standard library classes, such as
    those of enumerations, take names in strings."""
    return attribute.startswith("_") and attribute not in NAMED_TUPLE
