"""Cases of a rule in plain text: what happened, `----`, and what the rule says of it.

A block of `tests/unit/rules/cases/RULE.txt` is one case: comments (`#`), commands, `----` and the output. It begins
with a healthy cluster. The commands that describe it are in `commands`, for the rules about the job in `job_commands`.
These choose the output:

- none: a line for each result of the rule: `warning voter 2`, `unknown voter 2: why`, `not applicable: why`, `nothing`.
- `summary`: the same, with the summaries of the findings.
- `text`: what the person reads: severity, subject and age, the summary, the steps of the remedy.
- `evidence`: the same, and the evidence.
- `hold`: one line for each finding: for how long it must last before its alert fires.
- `findings`: the findings of every rule, with their rules.
- `resolved SUBJECT`: what the resolved alert says.
- `about SUBJECT`: only the results about this subject.
- `set window 15m`, `set ages.fetch 20s`: a threshold of this rule, of another one, or an age of observations.
- `each 9s 10s 11s`: the case is run with each of these words in place of `X`; the output begins with the word.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, groupby
from pathlib import Path

from rules.alert import Alert
from rules.evaluate import ALL_RULES, JOB_RULES, evaluate, evaluate_job, resolved_text, thresholds_for
from rules.evidence_text import plain_evidence
from rules.facts.freshness import ages_of
from rules.facts.quorum import Facts
from rules.finding import Evaluation, Finding, Severity
from rules.formatting import ms_text
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.job_state import JobState
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from tests.commands import milliseconds
from tests.scripts.script_text import commands_of
from tests.situation import commands, job_commands
from tests.situation.kept import once_for_each_quorum

CASES = Path(__file__).parents[1] / "unit" / "rules" / "cases"
_LONG, _FIRST_WORDS = 80, 8
_IN_LOG = '" in its log: '
_OUTPUTS = ("summary", "text", "evidence", "hold", "findings")
_CHOICES = ("resolved", "about", "set", "each", *_OUTPUTS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One block of a case file."""

    rule: str
    number: int
    above: tuple[str, ...]
    """Its lines above the `----`."""
    commands: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.rule}-{self.number}"

    def variants(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yields the words of `each` with the commands that they make; one empty word without it."""
        words = next((line.split()[1:] for line in self.commands if line.startswith("each ")), [""])
        rest = [line for line in self.commands if not line.startswith("each ")]
        for word in words:
            replaced = (
                " ".join(word if part == "X" else part for part in line.split(" ")) if word else line for line in rest
            )
            yield word, tuple(replaced)

    def observed(self) -> Iterator[Quorum | JobState]:
        """Yields what each of its variants describes."""
        for _, lines in self.variants():
            yield observed_by(self.rule, lines)

    def output(self) -> list[str]:
        """Returns what is expected below the `----`."""
        return [line for word, lines in self.variants() for line in _output(self.rule, word, lines)]


def cases_of(path: Path) -> list[Case]:
    """Returns the cases in a file; blocks of comments only are left out."""
    blocks = commands_of(path.read_text(encoding="utf-8"))
    return [
        Case(rule=path.stem, number=number, above=tuple(above), commands=tuple(lines))
        for number, (above, lines) in enumerate(blocks, 1)
        if lines
    ]


def file_text(path: Path) -> str:
    """Returns the text of a file of cases with the real output. Steps that are already in it are not repeated."""
    cases = {case.number: case for case in cases_of(path)}
    blocks: list[str] = []
    written: dict[tuple[str, int], tuple[str, ...]] = {}
    for number, (above, _) in enumerate(commands_of(path.read_text(encoding="utf-8")), 1):
        output = [] if number not in cases else ["----", *_shortened(cases[number].output(), written)]
        blocks.append("\n".join([*above, *output]))
    return "\n\n".join(blocks) + "\n"


def _shortened(lines: Iterable[str], written: dict[tuple[str, int], tuple[str, ...]]) -> Iterator[str]:
    """Yields the lines; of steps that follow each other above already only their numbers and the first words.

    `written`: by the first of so many steps, the first steps above that begin with it. Others are not left out, so the
    first words and the numbers say which they are.
    """
    for are_steps, group in groupby(lines, lambda line: line.strip().partition(". ")[0].isdigit()):
        block = [*group]
        yield from () if are_steps else block
        steps = tuple(line.strip().partition(". ")[2] for line in block) if are_steps else ()
        at = 0
        while at < len(steps):
            same = (n for n in range(len(steps) - at, 0, -1) if written.get((steps[at], n)) == steps[at : at + n])
            known, step = next(same, 0), steps[at]
            first = f"{' '.join(step.split()[:_FIRST_WORDS])} …"
            if known > 1:
                yield f"  {at + 1}-{at + known}. {first}"
            elif not (known and _IN_LOG in step):
                yield f"  {at + 1}. {first if known and len(step) > _LONG and not step.startswith('$') else step}"
            at += max(1, known)
        for start, end in combinations(range(len(steps) + 1), 2):
            written.setdefault((steps[start], end - start), steps[start:end])


@cache
def cases_of_rule(rule: str) -> tuple[Case, ...]:
    """Returns the cases of a rule."""
    return tuple(cases_of(CASES / f"{rule}.txt"))


def severities(rule: str) -> set[str]:
    """Returns the severities with which the rule has findings, by the output in its file."""
    found: set[str] = set()
    for block in (CASES / f"{rule}.txt").read_text(encoding="utf-8").split("\n\n"):
        above, _, output = block.partition("\n----\n")
        if "findings" not in above.split("\n"):
            words = (
                line.partition(": ")[2].split() if line.split(" ")[0].endswith(":") else line.split()
                for line in output.split("\n")
                if not line.startswith(" ")
            )
            found |= {first for first, *_ in filter(None, words)}
    return found & {*Severity}


def observed_by(rule: str, lines: Iterable[str]) -> Quorum | JobState:
    """Returns what the commands of a case of this rule describe; those that choose its output are left out."""
    return _observed(rule, tuple(line for line in lines if line.split()[0] not in _CHOICES))


@cache
def _observed(rule: str, described: tuple[str, ...]) -> Quorum | JobState:
    return job_commands.job(*described) if rule in JOB_RULES else commands.situation(*described)


def evaluated(observed: Quorum | JobState, thresholds: dict[str, float] | None = None) -> Evaluation:
    """Returns the results of all rules; with default thresholds, once for each quorum. Fails if one raises an error."""
    if isinstance(observed, Quorum) and not thresholds:
        return _evaluated_by_default(observed)
    return _evaluated(observed, thresholds)


def _evaluated(observed: Quorum | JobState, thresholds: dict[str, float] | None = None) -> Evaluation:
    values = thresholds_for(thresholds or {})
    if isinstance(observed, Quorum):
        observed = replace(observed, ages=ages_of(values))
    evaluation = evaluate_job(observed, values) if isinstance(observed, JobState) else evaluate(Facts(observed), values)
    assert not evaluation.failed, evaluation.failed
    return evaluation


@once_for_each_quorum
def _evaluated_by_default(observed: Quorum) -> Evaluation:
    return _evaluated(observed)


def alerts_of(observed: Quorum | JobState) -> tuple[Alert, ...]:
    """Returns the alerts that fire after what is observed has lasted for each rule's hold."""
    at_once = {f"{rule}.hold": 0.0 for rule in ALL_RULES}
    fired = advance(TrackedConditions(), evaluated(observed, at_once), observed, thresholds_for(at_once))[1]
    thresholds = thresholds_for({})
    held_ms = {rule: thresholds[rule].ms("hold") for rule in ALL_RULES}
    return tuple(replace(one, started_at_ms=Millis(one.observed_at_ms - held_ms[one.rule])) for one in fired)


def _output(rule: str, word: str, lines: Sequence[str]) -> Iterator[str]:
    described: list[str] = []
    chosen: list[str] = []
    for line in lines:
        (chosen if line.split()[0] in _CHOICES else described).append(line)
    thresholds = dict(_threshold(rule, line) for line in chosen if line.startswith("set "))
    observed = _observed(rule, tuple(described))
    known = Facts(observed) if isinstance(observed, Quorum) else observed
    about = next((line.partition(" ")[2] for line in chosen if line.startswith("about ")), None)
    outputs = [line for line in chosen if line.split()[0] in ("resolved", *_OUTPUTS)] or [""]
    if about is not None and all(line.startswith("resolved ") for line in outputs):
        outputs.insert(0, "")
    first = f"{word}: " if word else ""
    for output in outputs:
        if output.startswith("resolved "):
            subject = output.partition(" ")[2]
            yield f"{first}resolved {subject}: {resolved_text(rule, Subject.of(subject), known)}"
            continue
        if output == "hold":
            yield from (f"{first}{line}" for line in _holds(rule, evaluated(observed, thresholds), thresholds, about))
            continue
        results = [*_results(rule, evaluated(observed, thresholds), output, about)] or ["nothing"]
        for line in results:
            yield line if line.startswith("  ") else first + line


def _threshold(rule: str, line: str) -> tuple[str, float]:
    _, name, value = line.split()
    key = name if "." in name else f"{rule}.{name}"
    return key, float(value) if value.replace(".", "").isdigit() else milliseconds(value) / 1_000


def _results(rule: str, evaluation: Evaluation, output: str, about: str | None) -> Iterator[str]:
    for finding in evaluation.findings:
        if output == "findings":
            yield f"{finding.severity} {finding.rule} {finding.subject}"
        elif finding.rule == rule and about in (None, str(finding.subject)):
            yield from _finding(finding, output)
    if output == "findings":
        return
    for gap in evaluation.unknown:
        if gap.rule == rule and (about is None or gap.subject == Subject.of(about)):
            yield f"unknown{f' {gap.subject}' if gap.subject else ''}: {gap.why}"
    for one in evaluation.not_applicable:
        if one.rule == rule:
            yield f"not applicable: {one.why}"


def _holds(rule: str, evaluation: Evaluation, thresholds: dict[str, float], about: str | None) -> Iterator[str]:
    for finding in evaluation.findings:
        if finding.rule == rule and about in (None, str(finding.subject)):
            hold_ms = finding.hold(thresholds_for(thresholds)[rule])
            yield f"{finding.severity} {finding.subject} fires after {ms_text(hold_ms)}"


def _finding(finding: Finding, output: str) -> Iterator[str]:
    head = f"{finding.severity} {finding.subject}"
    if output == "":
        yield head
        return
    if output == "summary":
        yield f"{head}: {finding.summary}"
        return
    age = finding.condition_age_ms
    yield head if age is None else f"{head}, for {ms_text(age)}"
    yield f"  {finding.summary}"
    for number, step in enumerate(finding.remedy, 1):
        yield f"  {number}. {step[1:].strip() if step.startswith('#') else f'$ {step}'}"
    if output == "evidence":
        yield from (f"    {line}" for line in plain_evidence(finding.evidence))
