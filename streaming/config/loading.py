"""A configuration from a YAML file or plain data: every mistake is one sentence that names the key and the place."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from connectors.errors import UsageError
from streaming.config.document import Config
from streaming.config.section import readable


def load(path: Path) -> Config:
    """The configuration in a YAML file.

    Raises:
        UsageError: it cannot be read, is not YAML, or says something that cannot be.
    """
    text = readable(path, "--config")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise UsageError(
            f"{path}: not YAML{place}: {getattr(problem, 'problem', None) or 'cannot be parsed'}"
        ) from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a configuration is a mapping that has at least the key 'clusters'")
    return checked(data, str(path))


def checked(data: Mapping[str, Any], place: str) -> Config:
    """A configuration from plain data; `place` is named in the error.

    Raises:
        UsageError: one sentence for the first thing that cannot be.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{place}: {_sentence(first['type'], first['loc'], first['msg'])}") from None


def _sentence(kind: str, where: Sequence[int | str], message: str) -> str:
    path = ".".join(str(part) for part in where)
    if kind == "extra_forbidden":
        section = _section(where[:-1])
        near = difflib.get_close_matches(str(where[-1]), section.model_fields, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(section.model_fields)}"
        return f"unknown key '{path}'; {hint}"
    return f"{path}: {message.removeprefix('Value error, ')}"


def _section(where: Sequence[int | str]) -> type[BaseModel]:
    """The part of the configuration that lies there."""
    section: type[BaseModel] = Config
    for part in where:
        if isinstance(part, str) and (field := section.model_fields.get(part)) is not None:
            section = next(_models(field.annotation), section)
    return section


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within a type, as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
