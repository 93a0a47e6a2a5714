"""YAML with the line of each of its values, so that a mistake can be shown where it stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from streaming.config.env_expansion import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a YAML text says, and where."""

    data: Any
    lines: Mapping[Path, int]
    """Of every value and of the key before it, from 1."""

    def line_of(self, path: Path) -> int | None:
        """The line of what stands at the path, or of the nearest part around it; None for the whole."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


class DuplicateKeyError(yaml.MarkedYAMLError):
    """A key stands twice in one mapping: YAML would silently take the last."""


def parsed(text: str) -> Document:
    """A YAML text, with safe types alone.

    Raises:
        yaml.YAMLError: it is not YAML, or a key stands twice.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(data=None, lines={})
        _refuse_twice(node, set())
        # Also flattens what is merged by <<, so that its lines are found below.
        data = loader.construct_document(node)
        return Document(data=data, lines=dict(_lines(node, ())))
    finally:
        loader.dispose()


def _lines(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            yield inner, key.start_mark.line + 1
            yield from _lines(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for at, value in enumerate(node.value):
            inner = (*path, at)
            yield inner, value.start_mark.line + 1
            yield from _lines(value, inner)


def _refuse_twice(node: yaml.Node, seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                said = "a key is a plain text: what begins with { or [ belongs in quotation marks"
                raise yaml.constructor.ConstructorError(problem=said, problem_mark=key.start_mark)
            if key.value in keys and key.tag != "tag:yaml.org,2002:merge":
                raise DuplicateKeyError(problem=f"the key '{key.value}' stands twice", problem_mark=key.start_mark)
            keys.add(key.value)
            _refuse_twice(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twice(value, seen)
