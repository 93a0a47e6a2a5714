"""A rule's page for the operator: what its docstring says first, and what stands under each of its headings."""

import textwrap
from dataclasses import dataclass

from rules.finding import CLEAR, HOLD, Rule, Threshold
from rules.formatting import spelled
from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, and the text under it with its line breaks and without its indentation."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What `kraftwatch explain` prints and what a file of `docs/rules` is made of."""

    lead: str
    """The one sentence before the first heading."""
    sections: tuple[Section, ...]
    """In the docstring's order."""


def page_of(rule: Rule) -> Page:
    """Take a rule's docstring apart: a line that is not indented, after the first paragraph, is a heading."""
    lead, _, rest = rule.text.strip().partition("\n\n")
    found: list[tuple[str, list[str]]] = []
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            found.append((line.strip(), []))
        elif found:
            found[-1][1].append(line)
    return Page(
        lead=" ".join(lead.split()),
        sections=tuple(
            Section(heading=heading, text=textwrap.dedent("\n".join(lines)).strip()) for heading, lines in found
        ),
    )


def times_of(rule: Rule) -> str:
    """When it is told and when it is taken back by default: one sentence."""
    seconds = {each.name: each.default for each in rule.thresholds}
    held, gone = (spelled(Millis(round(seconds[name] * 1000))) for name in (HOLD, CLEAR))
    told = f"once it has stood for {held}" if seconds[HOLD] else "at once"
    return f"Told {told}; resolved once it has been gone for {gone}."


def silence_of(rule: Rule) -> str | None:
    """Which other alerts keep it quiet: one sentence, or None."""
    if not rule.inhibited_by:
        return None
    *others, last = (f"`{each}`" for each in rule.inhibited_by)
    causes = f"{', '.join(others)} or {last}" if others else last
    return f"While {causes} stands, this rule cannot tell, and what it told before stays as it is."


def default_of(threshold: Threshold) -> str:
    """Its default with its unit, as it is written: `30 s`."""
    return f"{threshold.default:g} {threshold.unit}"
