"""What plugin code sees of Python inside a worker: builtins, and modules without their insides."""

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
    """The public names of a module, which nobody can replace."""

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
    """As `collections.namedtuple`. The fields of a class are the attributes that a pattern of
    `match` reads by position, also of a value that is made to look like one of the class."""
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
"""What functions of `datetime` import for themselves, through `__import__` of their caller. They
do not look at what it returns."""


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
    """`type` for one argument: with three it makes classes, as does the type of a class."""
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
    """A dictionary of the caller's own. Unrestricted ones are Python's, and import what this
    process has loaded."""
    if restricted:
        return dict(_OFFERED)
    sys.modules["asyncio"] = _FACADES["asyncio"]  # the worker's own loop has `sleep` alone
    return {**vars(builtins), "CommandRefused": CommandRefused}
