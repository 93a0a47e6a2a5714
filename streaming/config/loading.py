"""Reads a configuration from YAML or plain data; each invalid value is one sentence with its key and line."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from connectors.errors import UsageError
from connectors.settings import readable
from streaming.config.cluster_section import ClusterSection, in_force, invalid_count
from streaming.config.cross_checks import contradictions, mistakes_between_parts
from streaming.config.root import Config
from streaming.config.validation_sentences import origin, place, sentences
from streaming.config.yaml_lines import Document, ExpansionError, KeyPath, expanded, parse_yaml

_QUOTES_A_TEXT = ("found undefined alias", "found undefined tag", "could not determine a constructor for the tag")
"""Beginnings of YAML errors that would print a text of the file, possibly a secret."""


def load(path: Path, *, complete: bool = True) -> Config:
    """Returns the configuration in a YAML file.

    Args:
        complete: False if options add clusters to it: `checked` then finds what refers to no cluster.

    Raises:
        UsageError: the file cannot be read, is not YAML, or has an invalid value: the first one.
    """
    config, wrong = _validated(_read(path), complete=complete)
    if config is None:
        raise UsageError(f"{path}: {wrong[0]}")
    return config


def mistakes(path: Path) -> Sequence[str]:
    """Returns all invalid values of a YAML file, without opening the files that it names; empty when it is valid.

    Raises:
        UsageError: the file cannot be read, or is not YAML.
    """
    _, wrong = _validated(_read(path))
    return [f"{path}: {sentence}" for sentence in wrong]


def checked(data: Mapping[str, Any], source: str) -> Config:
    """Returns a configuration from plain data; `source` is named in the error.

    Raises:
        UsageError: one sentence for the first invalid value.
    """
    try:
        config = Config.model_validate(data)
    except ValidationError as problem:
        raise UsageError(f"{source}: {sentences(problem, None)[0]}") from None
    for path, sentence in (*contradictions(config), *mistakes_between_parts(config)):
        raise UsageError(f"{source}: {place(None, path)}: {sentence}")
    return config


def located(path: Path, sentence: str) -> str:
    """Returns a sentence about a value of a YAML file with the file and, if the value is found in it, its line.

    Args:
        sentence: begins with a key, as `sinks.0: ` or `cluster prod: ssl_cafile: `; any other is returned unchanged.
    """
    try:
        document = _read(path)
    except UsageError:
        # Changed meanwhile.
        return sentence
    keys = _keys_at_the_beginning(sentence, document.data)
    return sentence if keys is None else f"{path}: line {document.line_of(origin(document, keys))}: {sentence}"


def _keys_at_the_beginning(sentence: str, data: Mapping[str, Any]) -> KeyPath | None:
    found = re.match(r"cluster (?P<cluster>\S+): (?P<key>\w+)\b|(?P<keys>\w+(?:\.\w+)*): ", sentence)
    if found is None:
        return None
    if found["cluster"] is None:
        keys = tuple(int(key) if key.isdigit() else key for key in found["keys"].split("."))
        return keys if keys[0] in data else None
    names = [each.get("name") if isinstance(each, Mapping) else None for each in data.get("clusters", ())]
    known = found["cluster"] in names and found["key"] in ClusterSection.model_fields
    return ("clusters", names.index(found["cluster"]), found["key"]) if known else None


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
    if not isinstance(document.data, dict):
        raise UsageError(f"{path}: line 1: a configuration must be a mapping with at least the key 'clusters'")
    return document


def _validated(document: Document, *, complete: bool = True) -> tuple[Config | None, Sequence[str]]:
    try:
        data = expanded(document.data, os.environ)
        config = Config.model_validate(data)
    except ExpansionError as problem:
        return None, [f"{place(document, problem.path)}: {problem}"]
    except ValidationError as problem:
        return None, sentences(problem, document)
    wrong = list(_wrong_thresholds(config, data, document))
    between = [*contradictions(config), *(mistakes_between_parts(config) if complete else ())]
    wrong += [f"{place(document, path)}: {sentence}" for path, sentence in between]
    return None if wrong else config, wrong


def _wrong_thresholds(config: Config, data: Any, document: Document) -> Iterator[str]:
    sections: list[tuple[KeyPath, Mapping[str, Mapping[str, float]]]] = [
        (("thresholds",), config.thresholds),
        *((("clusters", at, "thresholds"), each.thresholds) for at, each in enumerate(config.clusters)),
    ]
    for section, thresholds in sections:
        for rule, values in thresholds.items():
            for name, value in values.items():
                path = (*section, rule, name)
                try:
                    in_force({f"{rule}.{name}": value})
                except UsageError as problem:
                    yield f"{place(document, path)}: {problem}"
                # pydantic has read `5m` as 300.
                if mistake := invalid_count(rule, name, reduce(getitem, path, data)):
                    yield f"{place(document, path)}: {mistake}"
