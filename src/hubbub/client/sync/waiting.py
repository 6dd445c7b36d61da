"""Methods of asynchronous objects, as methods that wait: same parameters, same answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from hubbub.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Runner(Protocol):
    """A client without asyncio: the thread on which an asynchronous client works."""

    @property
    def asynchronous(self) -> Client:
        """The client that does the work."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Do the work on the client's thread, and wait for it."""


class Blocking(Generic[A]):
    """Stands for an asynchronous object. Its work is done on the client's thread."""

    def __init__(self, runner: Runner, inner: A) -> None:
        self._runner = runner
        self._inner = inner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaving a `with` block does this."""


def waits(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking[A], P], R]:
    """The method of the asynchronous object, waited for."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._runner.run(method(self._inner, *args, **kwargs))

    return call


def passes(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[Blocking[A], P], R]:
    """The method of the asynchronous object, if it waits for nothing."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._inner, *args, **kwargs)

    return call
