"""A rule's page for the operator, from its docstring: the lead sentence, and the text under each heading."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from rules.finding import ALERTS, Threshold
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from rules.rule import DeclaredRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What `kraftwatch explain` prints and what a file of `docs/rules` contains."""

    lead: str
    """The one sentence before the first heading."""
    sections: Mapping[str, str]
    """The text under each heading with its line breaks and without its indentation, in the docstring's order."""


def page_of(rule: DeclaredRule) -> Page:
    """Parses a rule's docstring: a line without indentation after the first paragraph is a heading."""
    lead, _, rest = rule.text.strip().partition("\n\n")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            lines = found[line.strip()] = []
        else:
            lines.append(line)
    sections = {heading: textwrap.dedent("\n".join(under)).strip() for heading, under in found.items()}
    return Page(lead=" ".join(lead.split()), sections=sections)


def times_of(rule: DeclaredRule) -> str:
    """Returns one sentence: when the alert fires and when it resolves by default."""
    lasted, absent = (ms_text(Millis(round(threshold.default * 1000))) for threshold in (rule.hold, *ALERTS))
    fires = f"after the condition has lasted {lasted}" if rule.hold.default else "at once"
    return f"Fires {fires}; resolves after the condition has been absent for {absent}."


def inhibition_of(rule: DeclaredRule) -> str | None:
    """Returns which other rules inhibit the rule, and what follows, in sentences; None if none do."""
    if not rule.inhibited_by:
        return None
    *others, last = (f"`{each}`" for each in rule.inhibited_by)
    causes = f"{', '.join(others)} or {last}" if others else last
    text = f"While {causes} has a finding, this rule is inhibited: its result is unknown, firing alerts keep firing."
    if rule.outlives_cause:
        text += " A warning that is left when the last of them resolves fires at once, as part of the same incident."
    return text


def default_of(threshold: Threshold) -> str:
    """Returns a threshold's default with its unit: `30 s`."""
    return f"{threshold.default:g} {threshold.unit}"
