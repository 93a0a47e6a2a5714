"""Which tests reach a function: recorded while all tests run once without a change."""

import json
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from typing import Self, TypeAlias

import pytest

from tests.mutation.live_functions import clear_caches

Function: TypeAlias = tuple[str, str]
"""Path of a module and name of a function or method, without its class."""


class Reach:
    """A pytest plugin that records the calls of functions.

    What the setup of a test calls counts for every test of its file, because fixtures may be shared.
    """

    def __init__(self, functions: dict[types.CodeType, Function]) -> None:
        self._functions = functions
        self._found: defaultdict[Function, set[str]] = defaultdict(set)
        """Node ids of tests, and paths of files."""
        self._called: set[Function] = set()

    def _note(self, frame: types.FrameType, event: str, _argument: object) -> None:
        if event == "call" and (function := self._functions.get(frame.f_code)) is not None:
            self._called.add(function)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        clear_caches()
        yield from self._recorded(file_of(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield from self._recorded(item.nodeid)

    def _recorded(self, name: str) -> Iterator[None]:
        self._called = set()
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            for function in self._called:
                self._found[function].add(name)

    def to_json(self) -> str:
        return json.dumps([[*function, sorted(names)] for function, names in self._found.items()])

    @classmethod
    def from_json(cls, text: str) -> Self:
        reach = cls({})
        reach._found.update({(module, name): {*names} for module, name, names in json.loads(text)})
        return reach

    def __contains__(self, function: Function) -> bool:
        return function in self._found

    def includes(self, function: Function, item: pytest.Item) -> bool:
        """Whether the test reaches the function."""
        return not self._found[function].isdisjoint((item.nodeid, file_of(item)))


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
