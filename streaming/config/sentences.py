"""One sentence for each invalid value of a configuration, with its key and line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from connectors.settings.sections import PLACED
from rules.formatting import visible

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of the file to one value."""
_LIST = "expected a list: begin each entry with `- `, or write [A, B]"
_MAPPING = "expected a mapping: write KEY: VALUE"
_EXPECTED = {
    **dict.fromkeys(("tuple_type", "list_type"), _LIST),
    **dict.fromkeys(("mapping_type", "dict_type", "model_type", "model_attributes_type"), _MAPPING),
    "string_type": "expected a text",
    **dict.fromkeys(("bool_type", "bool_parsing"), "expected true or false"),
}
"""What to write instead of a value of another type, by pydantic's name of the error."""
_LONGEST, _END = 1_000, 200
"""Characters of a sentence, and of its end: what to write instead stands there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The data of a YAML text with line numbers."""

    data: Any
    lines: Mapping[KeyPath, int]
    """Line of each value, or of the key before it; the first line is 1. `()` is the whole."""

    def line_of(self, path: KeyPath) -> int:
        """Returns the line of the value at this path, or of the nearest part that contains it."""
        return next(self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines)


def sentences(problem: ValidationError, document: Document | None) -> Sequence[str]:
    """Returns a sentence for each error, without a value that may be secret."""
    found = problem.errors(include_url=False)
    # pydantic does not count an invalid item.
    within = {each["loc"][:-length] for each in found for length in range(1, len(each["loc"]))}
    errors = [each for each in found if each["type"] != "too_short" or each["loc"] not in within]
    # An invalid default is invalid in each cluster as well.
    return list(dict.fromkeys(_sentence(error, document) for error in errors))


def shown(sentence: str) -> str:
    """Returns a sentence that quotes a value of a file: on one line, and without the middle of a long one."""
    whole = visible(sentence)
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - _END]} ... {whole[-_END:]}"


def placed(document: Document | None, path: KeyPath) -> str:
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
    where = placed(document, path)
    if kind == "missing":
        return f"{where} is missing"
    text = _EXPECTED.get(kind) or message.removeprefix("Value error, ")
    text = text.partition(", unable")[0].partition(" after validation")[0]
    text = re.sub(r"^(Input|Tuple|String|List) should", "should", text)
    return f"{where}: {text}" if where else text


def _origin(document: Document | None, path: KeyPath) -> KeyPath:
    """Returns where a value is written: in the defaults, if a cluster has it from there."""
    common = ("defaults", *path[2:])
    inherited = path[:1] == ("clusters",) and len(path) > 2 and document is not None and path[:3] not in document.lines
    return common if inherited and document is not None and common in document.lines else path
