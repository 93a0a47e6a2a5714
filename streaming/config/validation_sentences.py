"""Makes one sentence of each error of pydantic: the line, the key, what is wrong and what to write instead."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from connectors.settings import PLACED
from streaming.config.cluster_section import invalid_count
from streaming.config.root import Config
from streaming.config.yaml_lines import Document, KeyPath

_UNKNOWN = "extra_forbidden"
_LISTS = ("tuple_type", "list_type")
_MAPPINGS = ("mapping_type", "dict_type", "model_type", "model_attributes_type")
_MAPPING_EXAMPLES = {
    "thresholds": "{no-leader: {hold: 5s}}",
    "rules": "{no-leader: {severity: critical}}",
    "resolve": "{HOST: ADDRESS}",
    "spark": "{SETTING: VALUE}",
}
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


def sentences(problem: ValidationError, document: Document | None) -> Sequence[str]:
    """Returns a sentence for each error, misspelt keys first. No sentence contains a value that may be secret.

    Args:
        document: the file; None for data without lines.
    """
    found = problem.errors(include_url=False)
    # pydantic does not count an invalid item.
    within = {each["loc"][:-length] for each in found for length in range(1, len(each["loc"]))}
    errors: list[Mapping[str, Any]] = [
        {**each} for each in found if each["type"] != "too_short" or each["loc"] not in within
    ]
    # A misspelt key is also a missing key: the former error is more helpful.
    errors.sort(key=lambda each: each["type"] != _UNKNOWN)
    # An invalid default is invalid in each cluster as well.
    return list(dict.fromkeys(_sentence(each, document) for each in errors))


def place(document: Document | None, path: KeyPath) -> str:
    """Returns the line, if known, and the keys that lead to the value."""
    line = None if document is None else document.line_of(path)
    return ("" if line is None else f"line {line}: ") + ".".join(map(str, path))


def _sentence(error: Mapping[str, Any], document: Document | None) -> str:
    kind, message = error["type"], error["msg"]
    # pydantic lists the alternatives of a type among the keys.
    keys = tuple(part for part in error["loc"] if isinstance(part, int) or not set(part) & set("[("))
    if kind == PLACED:
        keys = (*keys, *error["ctx"]["keys"])
    path = origin(document, keys)
    where = place(document, path)
    if kind == _UNKNOWN:
        known = keys_of(_section(path[:-1]))
        near = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
        line, _, name = where.rpartition(": ")
        return f"{line}{': ' if line else ''}unknown key '{name}'; {hint}"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "string_pattern_mismatch":
        message = PATTERN_SENTENCES.get(error["ctx"]["pattern"], "has a character that is not allowed here")
    text = _wanted_shape(kind, path, error["input"]) or message.removeprefix("Value error, ")
    text = text.partition(", unable")[0].partition(" after validation")[0]
    text = re.sub(r"^(Input|Tuple|String|List) should", "should", text)
    return f"{where}: {text}" if where else text


def _wanted_shape(kind: str, path: KeyPath, given: Any) -> str | None:
    shape = _shape(given)
    if kind in _LISTS:
        section = next(models_in(_annotation(path)), None)
        if section is not None:
            return f"expected a list, not {shape}: begin each entry with `- `"
        example = ", ".join(f'"{part.strip()}"' for part in given.split(",")) if isinstance(given, str) else "…"
        return f"expected a list, not {shape}: write [{example}]"
    if kind in _MAPPINGS:
        section = next(models_in(_annotation(path)), None)
        if section is not None:
            return f"expected a mapping, not {shape}: its keys are {', '.join(keys_of(section))}"
        return f"expected a mapping, not {shape}: write {_mapping_example(path)}"
    if kind == "string_type":
        quoted = ": put it in quotation marks" if isinstance(given, bool | int | float) else ""
        return f"expected a text, not {shape}{quoted}"
    if kind == "bool_type" or kind == "bool_parsing":
        return f"expected true or false, not {shape}"
    if "thresholds" in path[:-2]:
        return invalid_count(str(path[-2]), str(path[-1]), given)
    return None


def _mapping_example(path: KeyPath) -> str:
    if path[-1] in _MAPPING_EXAMPLES:
        return _MAPPING_EXAMPLES[str(path[-1])]
    return "{hold: 5s}" if "thresholds" in path else "{NAME: VALUE}"


def _shape(given: Any) -> str:
    match given:
        case None:
            return "an empty value"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "a date"


def origin(document: Document | None, path: KeyPath) -> KeyPath:
    """Returns where a value is written: in the defaults, if a cluster has it from there."""
    common = ("defaults", *path[2:])
    inherited = path[:1] == ("clusters",) and len(path) > 2 and document is not None and path[:3] not in document.lines
    return common if inherited and document is not None and common in document.lines else path


def _section(where: Sequence[int | str]) -> type[BaseModel]:
    section: type[BaseModel] = Config
    for part in where:
        field = _field(section, part)
        if field is not None:
            section = next(models_in(field.annotation), section)
    return section


def _annotation(where: Sequence[int | str]) -> Any:
    """Returns the type of the value at this path; of an entry of a list, that of the list."""
    keys = [part for part in where if isinstance(part, str)]
    section = _section(keys[:-1])
    field = _field(section, keys[-1]) if keys else None
    if field is not None:
        return field.annotation
    # The name of an item in a mapping.
    return _annotation(keys[:-1]) if keys else None


def _field(section: type[BaseModel], key: str | int) -> Any:
    fields = section.model_fields
    return fields.get(str(key)) or next((each for each in fields.values() if each.alias == key), None)


def keys_of(section: type[BaseModel]) -> Sequence[str]:
    """Returns the keys of a section as they are written."""
    return [field.alias or name for name, field in section.model_fields.items()]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models within a type such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)
