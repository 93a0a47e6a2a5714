"""A configuration from a YAML file or plain data: every mistake is one sentence that names the key and the line."""

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
from streaming.config.thresholds import in_force
from streaming.config.yaml_lines import Document, parsed

_UNKNOWN = "extra_forbidden"
_NAMES_A_TEXT = ("found undefined alias", "found undefined tag", "could not determine a constructor for the tag")
"""How YAML's sentences begin that would show a text of the file."""


def load(path: Path) -> Config:
    """The configuration in a YAML file.

    Raises:
        UsageError: it cannot be read, is not YAML, or says something that cannot be: the first mistake.
    """
    document = _read(path)
    try:
        return _validated(document)
    except _Mistakes as problem:
        raise UsageError(f"{path}: {problem.sentences[0]}") from None


def mistakes(path: Path) -> Sequence[str]:
    """Every mistake in a YAML file that can be seen without opening anything that it names; none when it is good.

    Raises:
        UsageError: it cannot be read, or is not YAML.
    """
    try:
        _validated(_read(path))
    except _Mistakes as problem:
        return [f"{path}: {sentence}" for sentence in problem.sentences]
    return []


def checked(data: Mapping[str, Any], place: str) -> Config:
    """A configuration from plain data; `place` is named in the error.

    Raises:
        UsageError: one sentence for the first thing that cannot be.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        raise UsageError(f"{place}: {_sentences(problem, None)[0]}") from None


class _Mistakes(Exception):
    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__()
        self.sentences = sentences


def _read(path: Path) -> Document:
    text = readable(path, "--config")
    try:
        document = parsed(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        said = getattr(problem, "problem", None) or "cannot be parsed"
        if said.startswith(_NAMES_A_TEXT):
            # Unquoted, a secret that begins with * or ! is an alias or a tag.
            said = said.partition(" '")[0] + ": a text that begins with * or ! belongs in quotation marks"
        raise UsageError(f"{path}: not YAML{place}: {said}") from None
    except ValueError:
        # A date, or a number of another base: which one, YAML says without its place.
        raise UsageError(
            f"{path}: not YAML: something looks like a date or a number and is none: put it in quotation marks"
        ) from None
    except RecursionError:
        raise UsageError(f"{path}: not YAML: something in it holds itself by an alias (*NAME)") from None
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}: a configuration is a mapping that has at least the key 'clusters'")
    return document


def _validated(document: Document) -> Config:
    try:
        config = Config.model_validate(expanded(document.data, os.environ))
    except ExpansionError as problem:
        raise _Mistakes([f"{_place(document, problem.path)}: {problem}"]) from None
    except ValidationError as problem:
        raise _Mistakes(_sentences(problem, document)) from None
    wrong = list(_wrong_thresholds(config, document))
    if wrong:
        raise _Mistakes(wrong)
    return config


def _place(document: Document | None, path: env_expansion.Path) -> str:
    """The line, as far as it is known, and the keys that lead there."""
    line = None if document is None else document.line_of(path)
    return ("" if line is None else f"line {line}: ") + ".".join(map(str, path))


def _origin(document: Document | None, path: env_expansion.Path) -> env_expansion.Path:
    """Where it was written: what a cluster has from the defaults stands there."""
    common = ("defaults", *path[2:])
    inherited = path[:1] == ("clusters",) and len(path) > 2 and document is not None and path[:3] not in document.lines
    return common if inherited and document is not None and common in document.lines else path


def _wrong_thresholds(config: Config, document: Document) -> Iterator[str]:
    """What the rules say of numbers that YAML and the models have nothing against."""
    sections: list[tuple[env_expansion.Path, Mapping[str, Mapping[str, float]]]] = [
        (("thresholds",), config.thresholds),
        *((("clusters", at, "thresholds"), each.thresholds) for at, each in enumerate(config.clusters)),
    ]
    for place, thresholds in sections:
        for rule, values in thresholds.items():
            for name, value in values.items():
                try:
                    in_force({f"{rule}.{name}": value})
                except UsageError as problem:
                    yield f"{_place(document, (*place, rule, name))}: {problem}"


def _sentences(problem: ValidationError, document: Document | None) -> Sequence[str]:
    found = problem.errors(include_url=False, include_input=False)
    # pydantic counts an item that is wrong as none.
    within = {each["loc"][:-length] for each in found for length in range(1, len(each["loc"]))}
    errors = [each for each in found if each["type"] != "too_short" or each["loc"] not in within]
    # A key that is misspelt is also one that is missing: the former says more.
    errors.sort(key=lambda each: each["type"] != _UNKNOWN)
    # What stands in the defaults is wrong in each cluster, too.
    return list(dict.fromkeys(_sentence(each["type"], each["loc"], each["msg"], document) for each in errors))


def _sentence(kind: str, where: Sequence[int | str], message: str, document: Document | None) -> str:
    # pydantic names the alternatives of a type among the keys.
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
    said = message.removeprefix("Value error, ").partition(", unable")[0].partition(" after validation")[0]
    said = re.sub(r"^(Input|Tuple|String|List) should", "should", said)
    return f"{place}: {said}" if path else said


def _section(where: Sequence[int | str]) -> type[BaseModel]:
    """The part of the configuration that lies there."""
    section: type[BaseModel] = Config
    for part in where:
        if isinstance(part, str) and (field := section.model_fields.get(part)) is not None:
            section = next(_models(field.annotation), section)
    return section


def _keys(section: type[BaseModel]) -> Sequence[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within a type, as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
