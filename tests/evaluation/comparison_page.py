"""`python -m tests.evaluation.comparison_page`: the evaluated faults in docs/comparison.md, from docs/evaluation.json.

Nothing in that section that was measured is written by hand.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.bench.__main__ import ROOT

PAGE = ROOT / "docs" / "comparison.md"
RESULTS = ROOT / "docs" / "evaluation.json"
BEGIN, END = "<!-- evaluation -->", "<!-- /evaluation -->"
Results = Mapping[str, Any]
_TEXT = """\
`make evaluate` injects faults by hand into a real quorum of five controllers and two brokers. The real job notifies a
webhook, Slack and PagerDuty (doubles that validate each call by the documented schema) and Debian's Alertmanager.
Holds are short ({holds}); *after the hold* does not depend on them. Notifications are those of the webhook, when the
fault begins/gets worse/ends; Slack and PagerDuty got as many. The last two columns are Kafka's own tools at the same
moment: `kafka-metadata-quorum describe --status`, and the alerts of usual rule files for Kafka's metrics that would
be pending or firing.

{right} of {all} faults went as expected: these notifications and no other, texts that begin with the conclusion, and
remedies that begin with the right step (both compared with patterns).

{at}, {seconds} s. {machine}; commit {commits}; load average {load}.
"""
_LEADER = re.compile(r"LeaderId \d+, LeaderEpoch \d+, ")


def render(stored: Results) -> str:
    """Returns the section between its two comments."""
    faults = stored["faults"]
    measured = sorted((fault["measured"] for fault in faults), key=lambda one: str(one["at"]))
    thresholds = stored["thresholds"].items()
    holds = ", ".join(f"{key.removesuffix('.hold')} {value:g} s" for key, value in thresholds if key.endswith(".hold"))
    loads = [load for one in measured for load in one["load"]]
    right = sum(not fault["problems"] for fault in faults)
    text = _TEXT.format(
        holds=holds,
        right=right,
        all=len(faults),
        at=measured[-1]["at"],
        seconds=sum(one["seconds"] for one in measured),
        machine=stored["machine"],
        commits=" to ".join(dict.fromkeys((measured[0]["commit"], measured[-1]["commit"]))),
        load=f"{min(loads):.0f} to {max(loads):.0f}",
    )
    lines = [
        *(
            filled
            for paragraph in text.split("\n\n")
            for filled in (textwrap.fill(paragraph, 120, break_on_hyphens=False), "")
        ),
        *_table(
            ("fault", "alert", "first sentence", "after the hold", "notified", "describe --status", "metrics"),
            ((*_own_cells(fault), *_kafka_cells(fault)) for fault in faults),
        ),
    ]
    return "\n".join(lines)


def page_with(text: str, stored: Results) -> str:
    """Returns the page with the section of these results."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render(stored)}\n{END}{after}"


def write_page(stored: Results) -> None:
    """Writes the page."""
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), stored), encoding="utf-8")


def _own_cells(fault: Results) -> Sequence[str]:
    texts, counts = fault.get("texts", ()), fault["notifications"]
    return (
        fault["name"],
        _lines(f"{one['severity']} {_rule(one['rule'])}" for one in texts) or "none",
        _lines(one["sentence"] for one in texts),
        _lines(f"{one['after_hold_s']:.1f} s" for one in texts),
        f"{counts['begin']}/{counts['worse']}/{counts['end']}",
    )


def _kafka_cells(fault: Results) -> Sequence[str]:
    if "kafka_tool" not in fault:
        return "", ""
    tool = fault["kafka_tool"]
    code = f"exit code {tool['exit_code']}: {_LEADER.sub('', tool['text'])}"
    return (
        f"no answer within {tool['seconds']:.0f} s" if tool["exit_code"] is None else code,
        _lines(fault["metrics"]["alerts"]) or "nothing",
    )


def _lines(cells: Iterable[str]) -> str:
    return "<br>".join(cells)


def _rule(rule: str) -> str:
    return f"[{rule}](rules/{rule}.md)"


def _table(heading: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"


def main() -> None:
    """Writes the page from the stored results."""
    write_page(json.loads(RESULTS.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
