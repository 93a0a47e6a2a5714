"""Expansion of environment variables in a configuration: `${NAME}` and `${NAME:-default}`; `$${` is a literal `${`.

Only texts of the configuration file are expanded: no keys, and no content of a file that it names.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list positions from the top of the file to one value."""

_FOUND = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class ExpansionError(ValueError):
    """A text that cannot be expanded, with its path."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path


def expanded(value: Any, environment: Mapping[str, str], path: Path = ()) -> Any:
    """Returns the data with every text expanded.

    Raises:
        ExpansionError: a variable is not set and has no default, or the syntax is invalid.
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
