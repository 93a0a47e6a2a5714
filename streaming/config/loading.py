"""Reads a configuration from YAML or plain data; each invalid value is one sentence with its key and line."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from connectors.errors import UsageError
from streaming.config import env_expansion
from streaming.config.env_expansion import ExpansionError, expanded
from streaming.config.root import Config
from streaming.config.section import readable
from streaming.config.thresholds import check_unit, in_force
from streaming.config.yaml_lines import Document, parse_yaml

_UNKNOWN = "extra_forbidden"
_QUOTES_A_TEXT = ("found undefined alias", "found undefined tag", "could not determine a constructor for the tag")
"""Beginnings of YAML errors that would print a text of the file, possibly a secret."""


def load(path: Path) -> Config:
    """Returns the configuration in a YAML file.

    Raises:
        UsageError: the file cannot be read, is not YAML, or has an invalid value: the first one.
    """
    document = _read(path)
    try:
        return _validated(document)
    except _InvalidConfig as problem:
        raise UsageError(f"{path}: {problem.sentences[0]}") from None


def mistakes(path: Path) -> Sequence[str]:
    """Returns all invalid values of a YAML file, without opening the files that it names; empty when it is valid.

    Raises:
        UsageError: the file cannot be read, or is not YAML.
    """
    try:
        _validated(_read(path))
    except _InvalidConfig as problem:
        return [f"{path}: {sentence}" for sentence in problem.sentences]
    return []


def checked(data: Mapping[str, Any], place: str) -> Config:
    """Returns a configuration from plain data; `place` is named in the error.

    Raises:
        UsageError: one sentence for the first invalid value.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        raise UsageError(f"{place}: {_sentences(problem, None)[0]}") from None


class _InvalidConfig(Exception):
    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__()
        self.sentences = sentences


def _read(path: Path) -> Document:
    text = readable(path, "--config")
    try:
        document = parse_yaml(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        reason = getattr(problem, "problem", None) or "cannot be parsed"
        if reason.startswith(_QUOTES_A_TEXT):
            # Without quotation marks a secret that begins with * or ! is an alias or a tag.
            reason = reason.partition(" '")[0] + ": put a text that begins with * or ! in quotation marks"
        raise UsageError(f"{path}: not YAML{place}: {reason}") from None
    except ValueError:
        # A date or a number of another base: YAML reports it without its line.
        raise UsageError(
            f"{path}: not YAML: a value looks like a date or a number but is invalid: put it in quotation marks"
        ) from None
    except RecursionError:
        raise UsageError(f"{path}: not YAML: a value contains itself through an alias (*NAME)") from None
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}: a configuration must be a mapping with at least the key 'clusters'")
    return document


def _validated(document: Document) -> Config:
    try:
        data = expanded(document.data, os.environ)
        config = Config.model_validate(data)
    except ExpansionError as problem:
        raise _InvalidConfig([f"{_place(document, problem.path)}: {problem}"]) from None
    except ValidationError as problem:
        raise _InvalidConfig(_sentences(problem, document)) from None
    wrong = list(_wrong_thresholds(config, data, document))
    if wrong:
        raise _InvalidConfig(wrong)
    return config


def _place(document: Document | None, path: env_expansion.Path) -> str:
    """Returns the line, if known, and the keys that lead to the value."""
    line = None if document is None else document.line_of(path)
    return ("" if line is None else f"line {line}: ") + ".".join(map(str, path))


def _origin(document: Document | None, path: env_expansion.Path) -> env_expansion.Path:
    """Returns where the value was written: in the defaults, if the cluster has it from there."""
    common = ("defaults", *path[2:])
    inherited = path[:1] == ("clusters",) and len(path) > 2 and document is not None and path[:3] not in document.lines
    return common if inherited and document is not None and common in document.lines else path


def _wrong_thresholds(config: Config, data: Any, document: Document) -> Iterator[str]:
    """Yields a sentence for each threshold that the rules refuse."""
    sections: list[tuple[env_expansion.Path, Mapping[str, Mapping[str, float]]]] = [
        (("thresholds",), config.thresholds),
        *((("clusters", at, "thresholds"), each.thresholds) for at, each in enumerate(config.clusters)),
    ]
    for place, thresholds in sections:
        for rule, values in thresholds.items():
            for name, value in values.items():
                try:
                    in_force({f"{rule}.{name}": value})
                    check_unit(rule, name, _value_at(data, (*place, rule, name)))
                except (UsageError, ValueError) as problem:
                    yield f"{_place(document, (*place, rule, name))}: {problem}"


def _value_at(data: Any, path: env_expansion.Path) -> Any:
    """Returns the value as it is written at this path; None where `defaults` supply it."""
    for key in path:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return None
    return data


def _sentences(problem: ValidationError, document: Document | None) -> Sequence[str]:
    found = problem.errors(include_url=False, include_input=False)
    # pydantic does not count an invalid item.
    within = {each["loc"][:-length] for each in found for length in range(1, len(each["loc"]))}
    errors = [each for each in found if each["type"] != "too_short" or each["loc"] not in within]
    # A misspelt key is also a missing key: the former error is more helpful.
    errors.sort(key=lambda each: each["type"] != _UNKNOWN)
    # An invalid default is invalid in each cluster as well.
    return list(dict.fromkeys(_sentence(each["type"], each["loc"], each["msg"], document) for each in errors))


def _sentence(kind: str, where: Sequence[int | str], message: str, document: Document | None) -> str:
    # pydantic lists the alternatives of a type among the keys.
    keys = tuple(part for part in where if isinstance(part, int) or not set(part) & set("[("))
    path = _origin(document, keys)
    place = _place(document, path)
    if kind == _UNKNOWN:
        known = _keys(_section(path[:-1]))
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
        line, _, name = place.rpartition(": ")
        return f"{line}{': ' if line else ''}unknown key '{name}'; {hint}"
    if kind == "missing":
        return f"{place} is missing"
    text = message.removeprefix("Value error, ").partition(", unable")[0].partition(" after validation")[0]
    text = re.sub(r"^(Input|Tuple|String|List) should", "should", text)
    return f"{place}: {text}" if path else text


def _section(where: Sequence[int | str]) -> type[BaseModel]:
    """Returns the model of the part of the configuration at this path."""
    section: type[BaseModel] = Config
    for part in where:
        if isinstance(part, str) and (field := section.model_fields.get(part)) is not None:
            section = next(_models(field.annotation), section)
    return section


def _keys(section: type[BaseModel]) -> Sequence[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models within a type such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
