"""The Python environment of plugin code: builtins, and modules reduced to their public names."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections import namedtuple
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from hubbub.connectors.plugins.execution import CommandRefused, sleep
from hubbub.domain.plugins.allowed import BUILTINS, MODULES, is_internal


class Facade(ModuleType):
    """The public names of a module; immutable."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self.__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__name__}.{name} cannot be deleted")


def _facade(name: str, public: Mapping[str, object]) -> Facade:
    facade = Facade(name)
    vars(facade).update(public)
    for internal in ("__loader__", "__spec__"):
        vars(facade).pop(internal, None)
    return facade


def _namedtuple(*given: Any, **options: Any) -> Any:
    """Like `collections.namedtuple`, without fields named like internal attributes: `match` would
    read these by position from any value that imitates the class."""
    make: Any = namedtuple
    made = make(*given, **options)
    for field in filter(is_internal, made._fields):
        raise ValueError(f"{field} cannot be the name of a field")
    return made


def _facades() -> dict[str, Facade]:
    facades = {"asyncio": _facade("asyncio", {"sleep": sleep})}
    for name in sorted(MODULES.keys() - facades.keys(), reverse=True):  # `a.b` before `a`
        module = importlib.import_module(name)
        parts = {
            part.rpartition(".")[2]: facade
            for part, facade in facades.items()
            if part.rpartition(".")[0] == name
        }
        public = {each: getattr(module, each) for each in MODULES[name] if hasattr(module, each)}
        if name == "collections":
            public["namedtuple"] = _namedtuple
        facades[name] = _facade(name, public | parts)
    return facades


_FACADES = _facades()

_IMPLICIT = ("_strptime", "time")
"""Modules that functions of `datetime` import through `__import__` of their caller. They ignore the
return value."""


def _import(
    name: str,
    globals_: Mapping[str, object] | None = None,
    locals_: Mapping[str, object] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> ModuleType:
    if name in _IMPLICIT:
        return _FACADES["asyncio"]
    if level or name not in _FACADES:
        raise ImportError(f"{name} is not available to plugins")
    return _FACADES[name if fromlist else name.partition(".")[0]]


def _type(value: object, /) -> type:
    """`type` with one argument: with three it would create classes, as would a metaclass."""
    if isinstance(value, type):
        raise TypeError("the type of a class is not available to plugins")
    return type(value)


_OFFERED: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in BUILTINS},
    **{
        name: value
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    },
    "type": _type,
    "CommandRefused": CommandRefused,
    "__build_class__": builtins.__build_class__,
    "__import__": _import,
}


def offered_builtins(restricted: bool) -> dict[str, Any]:
    """A new dictionary. Unrestricted builtins are Python's own, and can import what this process
    has loaded."""
    if restricted:
        return dict(_OFFERED)
    sys.modules["asyncio"] = _FACADES["asyncio"]  # the worker's own loop has `sleep` alone
    return {**vars(builtins), "CommandRefused": CommandRefused}
