"""Goldens of descriptions notice every change: each field of a quorum is visible in its description.

Fields are changed one by one, in a quorum that has a value in every field of the model and in those of the log
scenarios. A new field of the model is changed too: describe it, or say in `INVISIBLE` why not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from enum import Enum
from itertools import count
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NewType, get_args, get_origin, get_type_hints

import pytest

from rules.model.quorum import Quorum
from tests.description.describe import describe
from tests.scripts.script_text import commands_of
from tests.unit.streaming.replay.log_run import LogRun
from tests.unit.streaming.replay.log_scenario_files import SCENARIOS

INVISIBLE = {
    "ReplicaHistory.samples": "only the newest one is described",
    "LagSample.observed_at_ms": "the newest one is of the newest poll in which the replica was listed",
}
NUMBERS = count(7)
"""For values that are all different."""
Change = tuple[str, Any]
"""The changed field, such as `Replica.last_fetch_ms`, and the value that contains the change."""


def value_of(hint: Any) -> Any:
    """Returns a value of a type, with a value in each of its fields."""
    if isinstance(hint, NewType):
        return value_of(hint.__supertype__)
    if NoneType in get_args(hint):
        return value_of(without_none(hint))
    if get_origin(hint) is tuple:
        return tuple(value_of(each) for each in get_args(hint) if each is not ...)
    if get_origin(hint) is Mapping:
        of_key, of_value = get_args(hint)
        return {value_of(of_key): value_of(of_value)}
    if is_dataclass(hint):
        return hint(**{each.name: value_of(of_field) for each, of_field in described_fields(hint)})  # type: ignore[operator]
    if issubclass(hint, Enum):
        return next(iter(hint))
    return {bool: True, int: next(NUMBERS), str: f"text {next(NUMBERS)}"}[hint]


def without_none(hint: Any) -> Any:
    return next(each for each in get_args(hint) if each is not NoneType)


def described_fields(owner: Any) -> Iterator[tuple[Field[Any], Any]]:
    """Yields the fields of a dataclass with their types, but for the `type` of an event."""
    hints = get_type_hints(owner if isinstance(owner, type) else type(owner))
    return (
        (each, hints[each.name]) for each in fields(owner) if each.init and get_origin(hints[each.name]) is not Literal
    )


def changes(value: Any, hint: Any, name: str) -> Iterator[Change]:
    """Yields each value that differs in one field; absent values become present, and present ones absent."""
    if isinstance(hint, NewType):
        yield from changes(value, hint.__supertype__, name)
    elif NoneType in get_args(hint):
        if value is None:
            yield name, value_of(without_none(hint))
        else:
            yield name, None
            yield from changes(value, without_none(hint), name)
    elif get_origin(hint) is tuple:
        yield from changed_tuples(value, get_args(hint), name)
    elif get_origin(hint) is Mapping:
        yield from changed_mappings(value, get_args(hint), name)
    elif is_dataclass(hint):
        for each, of_field in described_fields(value):
            for changed, new in changes(getattr(value, each.name), of_field, f"{type(value).__name__}.{each.name}"):
                yield changed, replace(value, **{each.name: new})
    elif isinstance(value, Enum):
        yield name, next(each for each in type(value) if each is not value)
    else:
        yield name, not value if isinstance(value, bool) else value + (1 if isinstance(value, int) else "x")


def changed_tuples(value: tuple[Any, ...], hints: tuple[Any, ...], name: str) -> Iterator[Change]:
    *_, last = hints
    if last is not ...:
        for number, hint in enumerate(hints):
            for changed, new in changes(value[number], hint, name):
                yield changed, (*value[:number], new, *value[number + 1 :])
    elif not value:
        yield name, (value_of(hints[0]),)
    else:
        yield name, value[:-1]
        for changed, new in changes(value[-1], hints[0], name):
            yield changed, (*value[:-1], new)


def changed_mappings(value: Mapping[Any, Any], hints: tuple[Any, ...], name: str) -> Iterator[Change]:
    if not value:
        yield name, {value_of(hints[0]): value_of(hints[1])}
        return
    last = [*value][-1]
    yield name, {key: each for key, each in value.items() if key != last}
    for changed, new in changes(value[last], hints[1], name):
        yield changed, {**value, last: new}


def unnoticed(quorum: Quorum) -> set[str]:
    """Returns the fields whose change the description does not show."""
    before = describe(quorum)
    return {name for name, changed in changes(quorum, Quorum, "") if describe(changed) == before} - set(INVISIBLE)


def test_every_field_of_the_model_is_described() -> None:
    quorum = value_of(Quorum)

    assert unnoticed(quorum) == set()
    assert {name for name, _ in changes(quorum, Quorum, "")} >= set(INVISIBLE), "INVISIBLE names existing fields"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.stem)
def test_every_field_in_a_log_scenario_is_described(scenario: Path) -> None:
    run = LogRun()
    for _, commands in commands_of(scenario.read_text(encoding="utf-8")):
        for command in commands:
            list(run.run(command))
        assert unnoticed(run.replay.quorum()) == set()
