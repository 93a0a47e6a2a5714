"""The commands of all texts of tests: one register for each form of text, and how words are read.

`python -m tests.commands` prints all of them with what they do.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Generic, NewType, TypeVar

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey
from rules.model.membership import FeatureRange, Voter

_DURATION = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


_FORMS = (
    "tests.situation.commands.command",
    "tests.situation.job_commands.command",
    "tests.scripts.log_commands.record",
    "tests.scripts.script_quorum.quorum_command",
    "tests.scripts.script_run.command",
    "tests.unit.streaming.replay.log_run.command",
    "tests.cli.transcript_setup.setup",
)
"""The registers of all forms of text."""
_Target = TypeVar("_Target")
_Function = TypeVar("_Function", bound=Callable[..., Any])
Milliseconds = NewType("Milliseconds", int)
"""A duration, as a parameter of a command."""


class Words:
    """The words of one command. Options and flags are taken by name, from anywhere; the others in their order."""

    command = ""
    """The name of the command that runs."""

    def __init__(self, text: str) -> None:
        self._left = text.split()
        self._clauses: list[Words] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def word(self) -> str:
        """Takes the next word."""
        return self._left.pop(0)

    def rest(self) -> list[str]:
        """Takes all words that are left."""
        left, self._left = self._left, []
        return left

    def option(self, name: str) -> str | None:
        """Takes a name and the word after it; None without the name."""
        if name not in self._left:
            return None
        at = self._left.index(name)
        _, value = self._left[at : at + 2]
        del self._left[at : at + 2]
        return value

    def flag(self, name: str) -> bool:
        """Takes a word that may be there."""
        if name not in self._left:
            return False
        self._left.remove(name)
        return True

    def number(self, name: str) -> int | None:
        """Takes an option that is a number."""
        value = self.option(name)
        return None if value is None else int(value)

    def nodes(self, name: str) -> tuple[NodeId, ...] | None:
        """Takes an option that is a list of node ids."""
        value = self.option(name)
        return None if value is None else nodes(value)

    def directories(self, name: str) -> tuple[DirectoryId, ...] | None:
        """Takes an option that is a list of directory ids."""
        value = self.option(name)
        return None if value is None else directories(value)

    def clauses(self) -> "list[Words]":
        """Takes all words that are left, divided at commas."""
        self._clauses = [Words(text) for text in " ".join(self.rest()).split(", ")]
        return self._clauses

    def arguments(self, parameters: Sequence[inspect.Parameter]) -> Iterator[object]:
        """Takes a word for each parameter of a function, as its type says; `Words` are those that are left."""
        for one in parameters:
            if one.annotation is Words:
                yield self
            elif one.kind is one.VAR_POSITIONAL:
                yield from map(_READ[one.annotation], self.rest())
            elif self or one.default is one.empty:
                yield _READ[one.annotation](self.word())

    def end(self) -> None:
        """Asserts that every word was understood."""
        assert not self._left, f"unknown words: {' '.join(self._left)}"
        for clause in self._clauses:
            clause.end()


def numbers(text: str) -> list[int]:
    """Returns the numbers of `1,2,3`; none for `none`."""
    return [] if text in ("", "none") else [int(number) for number in text.split(",")]


def directories(text: str) -> tuple[DirectoryId, ...]:
    """Returns the directory ids in `a,b`."""
    return tuple(map(DirectoryId, text.split(",")))


def nodes(text: str) -> tuple[NodeId, ...]:
    """Returns the node ids of `101,102`; none for `none`."""
    return tuple(map(NodeId, numbers(text)))


def milliseconds(text: str) -> int:
    """Returns the duration of `20ms`, `1.5s`, `10m` or `1h`."""
    found = _DURATION.fullmatch(text)
    assert found, f"not a duration: {text}"
    return round(float(found["number"]) * _MILLISECONDS[found["unit"]])


def topic_and_partition(text: str) -> tuple[str, int]:
    """Returns the topic and the number of `orders-0`."""
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def replica_key(text: str) -> ReplicaKey:
    """Returns the key of `2-old`: node 2 with directory id old; of `2`: without one."""
    node, _, directory = text.partition("-")
    return ReplicaKey(id=NodeId(int(node)), directory_id=DirectoryId(directory) if directory else None)


def endpoint(text: str, listener: str = "CONTROLLER") -> Endpoint:
    """Returns the endpoint of `c2:9093`, `[fd00::1]:9093` or `INTERNAL://c2:9093`."""
    named, separator, address = text.rpartition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener=named if separator else listener, host=host.strip("[]"), port=int(port))


def broker_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Returns the endpoints of `b1:9092,EXTERNAL://e1:9094`; the first is of PLAINTEXT."""
    return tuple(endpoint(each, "PLAINTEXT") for each in text.split(","))


def voter(text: str) -> Voter:
    """Returns the voter of `2-b`, at c2:9093, or of `2-b@c2:19093,INTERNAL://c9:9093`; `2-b@none`: at none."""
    name, _, addresses = text.partition("@")
    key = replica_key(name)
    listed = [] if addresses == "none" else (addresses or f"c{key.id}:9093").split(",")
    return Voter(key=key, endpoints=tuple(map(endpoint, listed)))


def feature_range(text: str) -> FeatureRange:
    """Returns the supported levels of `metadata.version=7-29`."""
    name, _, levels = text.partition("=")
    lowest, _, highest = levels.partition("-")
    return FeatureRange(name=name, lowest=int(lowest), highest=int(highest))


_READ: dict[Any, Callable[[str], object]] = {int: int, str: str, Milliseconds: milliseconds}


class Commands(Generic[_Target]):
    """The commands of one form of text: functions of what they change and of their words, by their first word.

    The docstring of a function is its help: it begins with the form of the command.
    """

    def __init__(self, form: str) -> None:
        self.form = form
        self.help: dict[str, str] = {}
        self._run: dict[str, Callable[[_Target, Words], Any]] = {}

    def __call__(self, *names: str) -> Callable[[_Function], _Function]:
        """Registers the decorated function."""

        def registered(function: _Function) -> _Function:
            _, *parameters = inspect.signature(function).parameters.values()
            for name in names:
                text = inspect.getdoc(function) or ""
                assert re.match(rf"(.*, )?{name}[ ,:]", text.split("\n")[0]), f"the help of {name} begins with its form"
                assert name not in self.help, f"two commands are named {name}"
                self.help[name] = text
                self._run[name] = lambda target, words: function(target, *words.arguments(parameters))
            return function

        return registered

    def run(self, target: _Target, text: str | Words) -> Any:
        """Runs one command and returns its result, or a list of what it yields."""
        words = Words(text) if isinstance(text, str) else text
        words.command = words.word()
        assert words.command in self._run, f"no command is named {words.command}: see python -m tests.commands"
        result = self._run[words.command](target, words)
        result = [*result] if isinstance(result, Iterator) else result
        words.end()
        return result


def listing() -> Iterator[str]:
    """Yields the help of all commands."""
    for place in _FORMS:
        module, _, name = place.rpartition(".")
        form: Commands[Any] = getattr(import_module(module), name)
        yield f"\n{form.form}\n"
        yield from (f"  {line}" for text in sorted({*form.help.values()}) for line in text.split("\n"))


if __name__ == "__main__":
    print("\n".join(listing()))  # noqa: T201
