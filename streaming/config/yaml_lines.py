"""The YAML file with the line of each value, and its environment variables.

`${NAME}` and `${NAME:-default}` are expanded in texts of the file: not in keys, and not in files that it names.
`$${` is a literal `${`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of the file to one value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The data of a YAML text with line numbers."""

    data: Any
    lines: Mapping[KeyPath, int]
    """Line of each value, or of the key before it; the first line is 1."""
    first_line: int = 1
    """Line of the whole."""

    def line_of(self, path: KeyPath) -> int:
        """Returns the line of the value at this path, or of the nearest part that contains it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return self.first_line


class _Loader(yaml.SafeLoader):
    """Refuses with its line what YAML would take silently, or report without the line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flattened: set[int] = set()

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - as PyYAML calls it
        try:
            return super().construct_object(node, deep)
        except ValueError:
            reason = "a value looks like a date or a number but is invalid: put it in quotation marks"
            raise _error(reason, node) from None

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Resolves << merges in the node, so that their lines are found too; checks the keys before."""
        if id(node) not in self._flattened:
            self._flattened.add(id(node))
            _check_keys(node)
        super().flatten_mapping(node)


def _check_keys(node: yaml.MappingNode) -> None:
    keys: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _error("a key must be a plain text: put a text that begins with { or [ in quotation marks", key)
        if key.value in keys and key.tag != "tag:yaml.org,2002:merge":
            raise _error(f"the key '{key.value}' is given twice", key)
        keys.add(key.value)


def _error(reason: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=reason, problem_mark=node.start_mark)


def parse_yaml(text: str) -> Document:
    """Returns the data of a YAML text, with safe types only.

    Raises:
        yaml.YAMLError: the text is not YAML, or a key is given twice.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(data=None, lines={})
        data = loader.construct_document(node)
        return Document(data=data, lines=dict(_lines(node, (), ())), first_line=node.start_mark.line + 1)
    finally:
        loader.dispose()


def _lines(node: yaml.Node, path: KeyPath, parents: tuple[yaml.Node, ...]) -> Iterator[tuple[KeyPath, int]]:
    if node in parents:
        raise _error("a value contains itself through an alias (*NAME)", node)
    inner: list[tuple[str | int, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        inner = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inner = [(at, value, value) for at, value in enumerate(node.value)]
    for name, marked, value in inner:
        yield (*path, name), marked.start_mark.line + 1
        yield from _lines(value, (*path, name), (*parents, node))


_FOUND = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class ExpansionError(ValueError):
    """A text that cannot be expanded, with its path."""

    def __init__(self, path: KeyPath, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def expanded(value: Any, environment: Mapping[str, str], path: KeyPath = ()) -> Any:
    """Returns the data with every text expanded.

    Raises:
        ExpansionError: a variable is not set and has no default, or the syntax or a character is invalid.
    """
    if isinstance(value, str):
        return _expanded_text(value, environment, path)
    if isinstance(value, Mapping):
        return {key: expanded(each, environment, (*path, key)) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [expanded(each, environment, (*path, at)) for at, each in enumerate(value)]
    return value


def _expanded_text(text: str, environment: Mapping[str, str], path: KeyPath) -> str:
    if "\0" in text:
        # No file, address or login may have one, and Python's functions for them raise a ValueError.
        raise ExpansionError(path, "has a NUL character: remove it")

    def replacement(found: re.Match[str]) -> str:
        if found["broken"]:
            raise ExpansionError(path, "invalid '${': write ${NAME}, ${NAME:-default}, or $${ for a literal ${")
        if found["name"] is None:
            return "${"
        value = environment.get(found["name"])
        if found["default"] is not None:
            return value or found["default"]
        if value is None:
            name = found["name"]
            raise ExpansionError(
                path, f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}"
            )
        return value

    return _FOUND.sub(replacement, text)
