"""Lets something happen at one call of the functions of `os` by which a command reads and changes files."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "utime")
"""The functions of `os` that a rescue calls."""


@contextmanager
def at_call(number: int, happens: Callable[[str], object], *, then_on: bool = False) -> Iterator[list[str]]:
    """Calls `happens` with the function's name before this call, and before each later one if `then_on`.

    A file that is opened without being created counts as the function `read`.

    Yields:
        The names of the functions that were called so far.
    """
    called: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        original = getattr(os, name)

        def function(*args: Any, **kwargs: Any) -> Any:
            called.append("read" if name == "open" and not args[1] & os.O_CREAT else name)
            if len(called) == number or (then_on and len(called) > number):
                happens(called[-1])
            return original(*args, **kwargs)

        return function

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counted(name))
        yield called


def fails_with(error: int) -> Callable[[str], None]:
    """Returns what raises this error of the system."""

    def fail(_: str) -> None:
        raise OSError(error, os.strerror(error))

    return fail
