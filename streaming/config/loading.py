"""Reads a configuration from YAML or plain data; each invalid value is one sentence with its key and line."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from connectors.errors import UsageError
from connectors.settings.sections import readable
from streaming.config.cross_checks import contradictions, mistakes_between_parts
from streaming.config.root import Config
from streaming.config.sentences import Document, placed, sentences, shown
from streaming.config.yaml_lines import DocumentError, parse_yaml


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
    return [f"{path}: {shown(sentence)}" for sentence in wrong]


def checked(data: Mapping[str, Any], source: str) -> Config:
    """Returns a configuration from plain data; `source` is named in the error.

    Raises:
        UsageError: one sentence for the first invalid value.
    """
    return _accepted(*_validated(data, None), source)


def _accepted(config: Config | None, wrong: Sequence[str], source: str) -> Config:
    if config is None or wrong:
        raise UsageError(f"{source}: {shown(wrong[0])}")
    return config


def _read(path: Path) -> Document:
    text = readable(path, "--config")
    try:
        document = parse_yaml(text, os.environ)
    except DocumentError as problem:
        raise UsageError(f"{path}: {shown(str(problem))}") from None
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}: line 1: a configuration must be a mapping with at least the key 'clusters'")
    return document


def _validated(data: Any, document: Document | None, *, complete: bool = True) -> tuple[Config | None, Sequence[str]]:
    """Returns the configuration, if its parts are valid, and what is wrong; data without lines has no document."""
    try:
        config = Config.model_validate(data)
    except ValidationError as problem:
        return None, sentences(problem, document)
    between = [*contradictions(config), *(mistakes_between_parts(config) if complete else ())]
    return config, [f"{placed(document, path)}: {sentence}" for path, sentence in between]
