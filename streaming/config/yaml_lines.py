"""The YAML file as texts, with the line of each value; environment variables in its values are expanded.

Numbers, `true` and times of day stay texts, which pydantic reads; an empty value and `null` are None. `${NAME}` and
`${NAME:-default}` are expanded in values: not in keys, and not in files that the values name. `$${` is a literal `${`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from streaming.config.sentences import Document, KeyPath

_EMPTY = ("", "~", "null", "Null", "NULL")
_MERGE = "<<"
_STANDARD_TAG = "tag:yaml.org,2002:"
_MOST_NESTED = 50
"""The deepest value of a configuration is at the sixth level; the time to parse grows with the square of the depth."""
_MOST_VALUES = 500_000
"""Fleets of ten thousand clusters have fewer; an alias of a list of aliases of lists multiplies."""
_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class _Loader(yaml.BaseLoader):
    """Reads a text as texts, up to a limited depth."""

    nested = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.nested += 1
        if self.nested > _MOST_NESTED:
            raise DocumentError(f"values are nested more than {_MOST_NESTED} deep", self.get_mark())
        node = super().compose_node(parent, index)
        self.nested -= 1
        return node


class DocumentError(ValueError):
    """What is wrong with a YAML text, in a sentence with the line; it contains no value of the text."""

    def __init__(self, reason: str, mark: yaml.Mark | None = None) -> None:
        super().__init__(reason if mark is None else f"line {mark.line + 1}: {reason}")


def parse_yaml(text: str, environment: Mapping[str, str]) -> Document:
    """Returns the data of a YAML text.

    Raises:
        DocumentError: the text is not YAML, has a key twice, or names a variable that is not set.
    """
    lines: dict[KeyPath, int] = {(): 1}
    try:
        node = yaml.compose(text, _Loader)
        data = None if node is None else _value(node, (), environment, lines, iter(range(_MOST_VALUES)))
    except yaml.YAMLError as problem:
        reason = str(getattr(problem, "problem", None) or "cannot be parsed")
        if reason.startswith(("found undefined alias", "found undefined tag")):
            # Without quotation marks a secret that begins with * or ! is an alias or a tag: it is not printed.
            reason = reason.partition(" '")[0] + ": put a text that begins with * or ! in quotation marks"
        raise DocumentError(f"not YAML: {reason}", getattr(problem, "problem_mark", None)) from None
    except RecursionError:
        raise DocumentError("a value contains itself through an alias (*NAME)") from None
    return Document(data=data, lines=lines)


def _value(
    node: yaml.Node, path: KeyPath, environment: Mapping[str, str], lines: dict[KeyPath, int], left: Iterator[int]
) -> Any:
    """Returns the data of a node, and adds the lines of its parts; `left`: one item for each value that may follow."""
    _take(left, node)
    if not node.tag.startswith(_STANDARD_TAG):
        raise DocumentError("put a text that begins with ! in quotation marks", node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        return None if node.style is None and node.value in _EMPTY else _expanded(node, environment)
    values: dict[str | int, Any] = {}
    for name, marked, value in _parts(node, left):
        lines[*path, name] = marked.start_mark.line + 1
        values[name] = _value(value, (*path, name), environment, lines, left)
    return values if isinstance(node, yaml.MappingNode) else [*values.values()]


def _take(left: Iterator[int], node: yaml.Node) -> None:
    if next(left, None) is None:
        raise DocumentError(f"it has more than {_MOST_VALUES:,} values: does an alias multiply them?", node.start_mark)


def _expanded(node: yaml.ScalarNode, environment: Mapping[str, str]) -> str:
    def replacement(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if found["broken"]:
            reason = "invalid '${': write ${NAME}, ${NAME:-default}, or $${ for a literal ${"
            raise DocumentError(reason, node.start_mark)
        if name is None:
            return "${"
        value = environment.get(name)
        if default is not None:
            return value or default
        if value is None:
            reason = f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}"
            raise DocumentError(reason, node.start_mark)
        return value

    if "\0" in node.value:
        # No file, address or login may have one, and Python's functions for them raise a ValueError.
        raise DocumentError("a value has a NUL character: remove it", node.start_mark)
    return _VARIABLE.sub(replacement, node.value)


def _parts(node: yaml.Node, left: Iterator[int]) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """Yields the name or position of each part, where it is written, and its value; those that `<<` merges first."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((at, value, value) for at, value in enumerate(node.value))
        return
    names: set[str] = set()
    own: list[tuple[str | int, yaml.Node, yaml.Node]] = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            reason = "a key must be a plain text: put a text that begins with { or [ in quotation marks"
            raise DocumentError(reason, key.start_mark)
        if key.value in names:
            raise DocumentError(f"the key '{key.value}' is given twice", key.start_mark)
        names.add(key.value)
        if key.value == _MERGE:
            # Of several merged mappings the first one wins.
            for merged in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                if not isinstance(merged, yaml.MappingNode):
                    raise DocumentError("<< expects a mapping, or a list of mappings", key.start_mark)
                _take(left, merged)
                yield from _parts(merged, left)
        else:
            own.append((key.value, key, value))
    yield from own
