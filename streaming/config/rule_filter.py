"""The configuration of which rules' alerts a sink gets: `rules: [no-leader, "voter-*"]`, or include and exclude."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from streaming.config.section import Section


class RuleFilter(Section):
    """Rules by id."""

    include: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Ids, or patterns with `*` and `?`: the alerts of a rule that matches one of them are sent."""
    exclude: tuple[str, ...] = ()
    """Ids, or patterns: the alerts of a rule that matches one of them are not sent."""


def _from_list(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f'expected a list, not a text: write ["{value}"]')  # noqa: TRY004 - pydantic handles ValueError
    return {"include": value} if isinstance(value, list | tuple) else value


_PATTERNS = {"type": "array", "items": {"type": "string"}}
Rules = Annotated[
    RuleFilter,
    BeforeValidator(_from_list),
    WithJsonSchema(
        {
            "anyOf": [
                {**_PATTERNS, "minItems": 1},
                {
                    "type": "object",
                    "properties": {"include": {**_PATTERNS, "minItems": 1}, "exclude": _PATTERNS},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""A list of what is included, or a mapping with include and exclude."""
