"""`python -m tests.rule_pages` (`make goldens`): writes docs/rules, a page for each rule and their list.

The words come from the rules' docstrings and thresholds, as those of `kraftwatch explain` do; how a rule was proven
comes from the tests that name it.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rules.evaluate import RULES
from rules.finding import HOLD, Rule, Severity
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.rule_page import default_of, page_of, silence_of, times_of
from tests.rule_scenarios import SCENES

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "rules"
GOLDENS = ROOT / "tests" / "unit" / "rules" / "goldens"
WRITTEN = "<!-- Written by `make goldens` from the rules' docstrings: change those. -->\n"
_QUOTED_RULE = re.compile(rf"`({'|'.join(RULES)})`")


def pages() -> Mapping[str, str]:
    """Every file of docs/rules by its name."""
    return {"index.md": index(), **{f"{rule.id}.md": markdown(rule) for rule in RULES.values()}}


def index() -> str:
    """The list of all rules, the worst first."""
    worst_first = [severity.value for severity in Severity]
    order = sorted(RULES.values(), key=lambda rule: ([worst_first.index(one) for one in severities(rule)][:1], rule.id))
    rows = [
        f"| [`{rule.id}`]({rule.id}.md) | {rule.title} | {', '.join(severities(rule))} | {held(rule)} |"
        for rule in order
    ]
    return "\n".join(
        [
            f"{WRITTEN}# Rules",
            "",
            "What each rule says, what to do about it and what not; `kraftwatch explain RULE` prints the same text.",
            "Critical: get up now. Warning: look today. Info: know about it.",
            "",
            "| rule | what it says | severity | told after |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def held(rule: Rule) -> str:
    """How long it must stand by default before it is told."""
    (seconds,) = (each.default for each in rule.thresholds if each.name == HOLD)
    return spelled(Millis(round(seconds * 1000))) if seconds else "at once"


def markdown(rule: Rule) -> str:
    """The page of one rule."""
    page = page_of(rule)
    parts = [f"{WRITTEN}# {rule.title}", f"`{rule.id}`: {', '.join(severities(rule))}. {times_of(rule)}", page.lead]
    for section in page.sections:
        parts += [f"## {section.heading}", linked(section.text, of=rule)]
    parts += [
        "| threshold | default | what it is |\n|---|---|---|\n"
        + "\n".join(f"| `{rule.id}.{each.name}` | {default_of(each)} | {each.meaning} |" for each in rule.thresholds),
        f"Change one with `--set {rule.id}.hold=VALUE`.",
    ]
    if silence := silence_of(rule):
        parts.append(linked(silence, of=rule))
    parts += ["## Silence it", silenced(rule), "## How it is proven", proof(rule)]
    return "\n\n".join(parts) + "\n"


def silenced(rule: Rule) -> str:
    """How people are told nothing of it for a while."""
    return (
        "While somebody works on it, nobody need be told:\n\n"
        "```\n"
        f'kraftwatch silence add --rule {rule.id} --cluster NAME --for 2h --comment "WHY" --config FILE\n'
        "```\n\n"
        "`--subject` narrows it to one of what it is about, `kraftwatch silence end ID` ends it before its time. "
        "Records (jsonl, a topic) are written all the same, and what still stands when the silence ends is told then."
    )


def linked(text: str, *, of: Rule) -> str:
    """The text with the names of other rules leading to their pages."""
    return _QUOTED_RULE.sub(lambda found: found[0] if found[1] == of.id else f"[{found[0]}]({found[1]}.md)", text)


def severities(rule: Rule) -> list[str]:
    """The severities that it has, the worst first: each has its golden."""
    had = {path.name.split(".")[1] for path in GOLDENS.glob(f"{rule.id}.*.txt")}
    return [severity.value for severity in Severity if severity.value in had]


def proof(rule: Rule) -> str:
    """What kinds of test fail when it does not do what its page says."""
    named = re.compile(rf'"{rule.id}"')
    fires = re.compile(rf"^\d+s firing \w+ {rule.id} ", re.MULTILINE)
    kinds = {
        "by cases, with the alerts as they are read (tests/unit/rules)": found("tests/unit/rules", "test_*.py", named),
        "by scripts (tests/scripts)": found("tests/scripts", "*.txt", fires),
        "by simulation (tests/simulation)": found("tests/simulation", "*.py", named),
    }
    real = [f"{scene.told} (tests/rule_scenarios.py)" for name, scene in SCENES.items() if name == rule.id]
    proven = "\n".join(f"- {kind}" for kind in (*(kind for kind, is_so in kinds.items() if is_so), *real))
    return f"{proven}\n\n`git grep -l {rule.id} tests` names the files."


def found(folder: str, pattern: str, wanted: re.Pattern[str]) -> bool:
    """Whether a file there holds what is wanted."""
    return any(wanted.search(path.read_text()) for path in (ROOT / folder).glob(pattern))


def main() -> int:
    PAGES.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for name, text in wanted.items():
        (PAGES / name).write_text(text)
    for path in PAGES.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
