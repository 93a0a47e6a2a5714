"""Reads a configuration from YAML or plain data; each invalid value is one sentence with its key and line."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from connectors.errors import UsageError
from connectors.settings import PLACED, readable
from streaming.config.cross_checks import contradictions, mistakes_between_parts
from streaming.config.root import Config
from streaming.config.yaml_lines import Document, DocumentError, KeyPath, parse_yaml

_LIST = "expected a list: begin each entry with `- `, or write [A, B]"
_MAPPING = "expected a mapping: write KEY: VALUE"
_EXPECTED = {
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    **dict.fromkeys(("mapping_type", "dict_type", "model_type", "model_attributes_type"), _MAPPING),
    "string_type": "expected a text",
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
}
"""What to write instead of a value of another type, by pydantic's name of the error."""
_NAME_CHARACTERS = "letters, digits, '.', '_' and '-'"
PATTERN_SENTENCES: Mapping[str, str] = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": f"write {_NAME_CHARACTERS}, beginning with a letter or a digit",
    r"^[A-Za-z0-9._-]+$": f"write {_NAME_CHARACTERS}",
    r"^[A-Za-z0-9#@][A-Za-z0-9#@._:/-]*$": "write letters, digits and any of # @ . _ : / -, without a blank, beginning "
    "with a letter, a digit, # or @",
    r"^(#[^\s<>&|]{1,80}|[CDG][A-Z0-9]{8,})$": "write #NAME, or the id of a channel, such as C0123456789",
    r"^https://[^\s]+/$": "write https://HOST/PATH/, with a slash at its end",
    r"^https?://[^\s<>|]+$": "write https://HOST/PATH or http://HOST/PATH, without a blank",
}
"""What to write instead of a text that does not match a pattern, by the pattern."""


def load(path: Path, *, complete: bool = True) -> Config:
    """Returns the configuration in a YAML file.

    Args:
        complete: False if options add clusters to it: `checked` then finds what refers to no cluster.

    Raises:
        UsageError: the file cannot be read, is not YAML, or has an invalid value: the first one.
    """
    document = _read(path)
    return _accepted(*_validated(document.data, document, complete=complete), str(path))


def mistakes(path: Path) -> Sequence[str]:
    """Returns all that is wrong with a YAML file, without opening the files that it names; empty when it is valid."""
    try:
        document = _read(path)
        _, wrong = _validated(document.data, document)
    except UsageError as problem:
        return [str(problem)]
    return [f"{path}: {sentence}" for sentence in wrong]


def checked(data: Mapping[str, Any], source: str) -> Config:
    """Returns a configuration from plain data; `source` is named in the error.

    Raises:
        UsageError: one sentence for the first invalid value.
    """
    return _accepted(*_validated(data, None), source)


def _accepted(config: Config | None, wrong: Sequence[str], source: str) -> Config:
    if config is None or wrong:
        raise UsageError(f"{source}: {wrong[0]}")
    return config


def _read(path: Path) -> Document:
    text = readable(path, "--config")
    try:
        document = parse_yaml(text, os.environ)
    except DocumentError as problem:
        raise UsageError(f"{path}: {problem}") from None
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}: line 1: a configuration must be a mapping with at least the key 'clusters'")
    return document


def _validated(data: Any, document: Document | None, *, complete: bool = True) -> tuple[Config | None, Sequence[str]]:
    """Returns the configuration, if its parts are valid, and what is wrong; data without lines has no document."""
    try:
        config = Config.model_validate(data)
    except ValidationError as problem:
        return None, _sentences(problem, document)
    between = [*contradictions(config), *(mistakes_between_parts(config) if complete else ())]
    return config, [f"{_place(document, path)}: {sentence}" for path, sentence in between]


def _sentences(problem: ValidationError, document: Document | None) -> Sequence[str]:
    """Returns a sentence for each error, without a value that may be secret."""
    found = problem.errors(include_url=False)
    # pydantic does not count an invalid item.
    within = {each["loc"][:-length] for each in found for length in range(1, len(each["loc"]))}
    errors = [each for each in found if each["type"] != "too_short" or each["loc"] not in within]
    # An invalid default is invalid in each cluster as well.
    return list(dict.fromkeys(_sentence(each, document) for each in errors))


def _place(document: Document | None, path: KeyPath) -> str:
    """Returns the line, if known, and the keys that lead to the value."""
    line = None if document is None else document.line_of(path)
    return ("" if line is None else f"line {line}: ") + ".".join(map(str, path))


def _sentence(error: Mapping[str, Any], document: Document | None) -> str:
    kind, message = error["type"], error["msg"]
    # pydantic lists the alternatives of a type among the keys.
    keys = tuple(part for part in error["loc"] if isinstance(part, int) or not set(part) & set("[("))
    if kind == PLACED:
        keys = (*keys, *error["ctx"]["keys"])
    path = _origin(document, keys)
    where = _place(document, path)
    if kind == "missing":
        return f"{where} is missing"
    if kind == "string_pattern_mismatch":
        message = PATTERN_SENTENCES[error["ctx"]["pattern"]]
    text = _EXPECTED.get(kind) or message.removeprefix("Value error, ")
    text = text.partition(", unable")[0].partition(" after validation")[0]
    text = re.sub(r"^(Input|Tuple|String|List) should", "should", text)
    return f"{where}: {text}" if where else text


def _origin(document: Document | None, path: KeyPath) -> KeyPath:
    """Returns where a value is written: in the defaults, if a cluster has it from there."""
    common = ("defaults", *path[2:])
    inherited = path[:1] == ("clusters",) and len(path) > 2 and document is not None and path[:3] not in document.lines
    return common if inherited and document is not None and common in document.lines else path
