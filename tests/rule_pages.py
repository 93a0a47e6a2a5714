"""The pages of docs/rules: one for each rule and an index (`make goldens`).

The texts are the rules' docstrings, as in `kraftwatch explain`. What is the same for every rule is in the index.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

from rules.evaluate import ALL_RULES
from rules.facts.freshness import AGES, AGES_SECTION
from rules.finding import ALERTS, ALERTS_SECTION, HOLD, Severity, hold
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from rules.rule import DeclaredRule
from rules.rule_page import default_of, page_of
from tests.page_tables import DOCS, table, with_tables
from tests.situation import case

PAGES = DOCS / "rules"
_SHARED_BY = 3
"""So many rules with the same threshold: its meaning is in the index, with its default if it is the same in all."""
_DIFFERENT = "on each page"
_HOLD = f"{hold(0).meaning}: "
"""What the index says of every hold: the page has the reason for its length alone."""
_QUOTED_RULE = re.compile(rf"`({'|'.join(ALL_RULES)})`")


def pages() -> Mapping[str, str]:
    """Returns every file of docs/rules by its name."""
    return {"index.md": index(), **{f"{rule.id}.md": markdown(rule) for rule in ALL_RULES.values()}}


def index() -> str:
    """Returns the list of all rules, the most severe first, and what applies to each."""
    worst_first = [severity.value for severity in Severity]
    order = sorted(
        ALL_RULES.values(), key=lambda rule: ([worst_first.index(one) for one in severities(rule)][:1], rule.id)
    )
    rows = [
        f"| [`{rule.id}`]({rule.id}.md) | {rule.title} | {', '.join(severities(rule))} | {hold_text(rule)} |"
        for rule in order
    ]
    meanings = [f"| `{name}` | {default} | {meaning} |" for (name, meaning), default in sorted(shared().items())]
    tables = {
        "rules": table("| rule | condition | severity | hold |", rows),
        "shared-thresholds": table("| name | default | meaning |", meanings),
        "ages": table(
            "| name | default | meaning |",
            [
                f"| `{section}.{each.name}` | {default_of(each)} | {each.meaning} |"
                for section, shared in ((ALERTS_SECTION, ALERTS), (AGES_SECTION, AGES))
                for each in shared
            ],
        ),
    }
    return with_tables(PAGES / "index.md", tables)


def shared() -> dict[tuple[str, str], str]:
    """Returns by name and meaning each threshold that several rules have: its default, or where the defaults are."""
    found = defaultdict(list)
    for rule in ALL_RULES.values():
        for each in rule.thresholds:
            found[each.name, each.meaning].append(default_of(each))
    return {
        threshold: defaults[0] if len({*defaults}) == 1 else _DIFFERENT
        for threshold, defaults in found.items()
        if len(defaults) >= _SHARED_BY
    }


def hold_text(rule: DeclaredRule) -> str:
    """Returns the default hold: how long the condition must last before the alert fires."""
    (seconds,) = (each.default for each in rule.thresholds if each.name == HOLD)
    return ms_text(Millis(round(seconds * 1000))) if seconds else "0 s"


def markdown(rule: DeclaredRule) -> str:
    """Returns the page of one rule."""
    page = page_of(rule)
    facts = f"`{rule.id}` ({', '.join(severities(rule))})."
    parts = [f"# {rule.title}", f"{facts} {page.lead}"]
    for heading, text in page.sections.items():
        parts += [f"## {heading}", linked(text, of=rule)]
    usual = shared()
    own = [each for each in rule.thresholds if (each.name, each.meaning) not in usual]
    others = [
        f"`{each.name}` {default_of(each)}" if usual[each.name, each.meaning] == _DIFFERENT else f"`{each.name}`"
        for each in rule.thresholds
        if each not in own
    ]
    parts.append("## Thresholds")
    if own:
        parts.append(
            "\n".join(f"- `{each.name}` {default_of(each)}: {each.meaning.removeprefix(_HOLD)}" for each in own)
        )
    if others:
        parts.append(f"[As in other rules](index.md#thresholds): {', '.join(others)}.")
    if rule.inhibited_by:
        causes = ", ".join(f"`{each}`" for each in rule.inhibited_by)
        left = " A warning that is left when they resolve fires at once." if rule.outlives_cause else ""
        parts.append(linked(f"[Inhibited](../glossary.md#alerts) by {causes}.{left}", of=rule))
    return "\n\n".join(parts) + "\n"


def linked(text: str, *, of: DeclaredRule) -> str:
    """Returns the text with the names of other rules as links to their pages."""
    return _QUOTED_RULE.sub(lambda match: match[0] if match[1] == of.id else f"[{match[0]}]({match[1]}.md)", text)


def severities(rule: DeclaredRule) -> list[str]:
    """Returns the rule's severities, the most severe first; each is in its cases."""
    existing = case.severities(rule.id)
    return [severity.value for severity in Severity if severity.value in existing]
