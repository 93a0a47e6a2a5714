"""Expansion of the environment in a configuration's texts: `${NAME}` and `${NAME:-default}`; `$${` is a plain `${`.

Only the file's own texts are expanded, never keys, and never what stands in a file that it names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and places from the top of the file to one value."""

_FOUND = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class ExpansionError(ValueError):
    """A text that cannot be expanded, and where it stands."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def expanded(value: Any, environment: Mapping[str, str], path: Path = ()) -> Any:
    """The same data with every text in it expanded.

    Raises:
        ExpansionError: a variable is not set and has no default, or the form is broken.
    """
    if isinstance(value, str):
        return _expanded_text(value, environment, path)
    if isinstance(value, Mapping):
        return {key: expanded(each, environment, (*path, key)) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [expanded(each, environment, (*path, at)) for at, each in enumerate(value)]
    return value


def _expanded_text(text: str, environment: Mapping[str, str], path: Path) -> str:
    def replacement(found: re.Match[str]) -> str:
        if found["broken"]:
            raise ExpansionError(
                path, "'${' begins no variable: write ${NAME}, ${NAME:-default}, or $${ for a plain ${"
            )
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
