"""Blocking versions of asynchronous methods, with the same parameters and results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from hubbub.client.client import Client

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Runner(Protocol):
    """A synchronous client: owns the thread of an asynchronous client."""

    @property
    def asynchronous(self) -> Client:
        """The underlying asynchronous client."""

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Runs a coroutine on the client's thread and waits for it."""


class Blocking(Generic[A]):
    """Wraps an asynchronous object, whose methods run on the client's thread."""

    def __init__(self, runner: Runner, inner: A) -> None:
        self._runner = runner
        self._inner = inner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Called at the end of a `with` block."""


def waits(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Blocking[A], P], R]:
    """A blocking version of an asynchronous method."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._runner.run(method(self._inner, *args, **kwargs))

    return call


def passes(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[Blocking[A], P], R]:
    """A version of a non-blocking method, run on the client's thread."""

    @wraps(method)
    def call(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._inner, *args, **kwargs)

    return call
