"""All outputs of many quorums as text: recorded before a change, and compared byte by byte after it (`make outputs`).

The quorums are those of the cases of the rules, of the scripts, and of simulations by their seeds. A difference is one
that people see: it is decided by reading, and the commit names it.
"""

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from functools import partial
from itertools import chain
from pathlib import Path

from connectors.sinks.alert_json import to_line
from rules.alert import Alert
from rules.evaluate import evaluate_job, resolved_text, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import Evaluation, Thresholds
from rules.model.identifiers import Millis
from rules.model.job_state import JobState
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from streaming.metrics.metric_spec import ClusterSample
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.rates import Rates
from streaming.status.check_output import check_text
from streaming.status.cluster_status import status_json
from streaming.status.restart_output import restart_json, restart_text
from streaming.status.what_if import what_if_json, what_if_text
from tests.agreement.outputs import cluster_state, outputs_of
from tests.scripts.script_run import ScriptRun
from tests.scripts.script_text import commands_of
from tests.simulation.recorded_simulation import RecordedSimulation
from tests.simulation.simulated_monitor import simulated_monitor
from tests.situation.case import CASES, cases_of_rule, evaluated
from tests.unit.streaming.status.printed_status import printed_status

SCRIPTS = Path(__file__).parents[1] / "scripts"
SEEDS, STEPS = 30, 6_000
_EVERY_ROWS = 20
"""All outputs of a simulated quorum are made after so many rows, its alerts after each."""
_SHOWN = 12
_CONTEXT = 1

Blocks = Iterator[tuple[str, Iterable[str]]]
"""What a block is of, and its lines."""


def sources(words: Iterable[str]) -> list[str]:
    """Returns the names of what has outputs, of those with one of these words in them: all without any."""
    found = [
        *(f"case-{path.stem}" for path in sorted(CASES.glob("*.txt"))),
        *(f"script-{path.stem}" for path in sorted((*SCRIPTS.glob("*.txt"), *SCRIPTS.glob("procedures/*.txt")))),
        *(f"seed-{seed}" for seed in range(SEEDS)),
    ]
    chosen = [*words]
    return [name for name in found if not chosen or any(word in name for word in chosen)]


def record(folder: Path, names: Iterable[str]) -> int:
    """Writes the outputs of these sources into the folder, on all cores; returns of how many quorums."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(partial(_write, folder), names))


def _write(folder: Path, name: str) -> int:
    blocks, lines = 0, list[str]()
    for block, of_block in _blocks(name):
        blocks += 1
        lines += [f"== {name} {block}", *of_block]
    with gzip.open(folder / f"{name}.gz", "wt", compresslevel=1, encoding="utf-8") as file:
        file.write("\n".join(lines))
    return blocks


def differences(before: Path, after: Path, names: Iterable[str]) -> Iterator[str]:
    """Yields the lines that differ, below the block that they are in."""
    for name in names:
        old, new = (_read(folder / f"{name}.gz") for folder in (before, after))
        for block in {**old, **new}:
            one, other = old.get(block, []), new.get(block, [])
            if one != other:
                yield block
                yield from (line.rstrip("\n") for line in [*unified_diff(one, other, n=_CONTEXT, lineterm="")][2:])


def _read(path: Path) -> dict[str, list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        text = file.read()
    blocks = (block.split("\n") for block in re.split(r"^(?=== )", text, flags=re.MULTILINE) if block)
    return {lines[0]: lines[1:] for lines in blocks}


def _blocks(name: str) -> Blocks:
    kind, _, which = name.partition("-")
    match kind:
        case "case":
            yield from _of_cases(which)
        case "script":
            yield from _of_script(next(SCRIPTS.rglob(f"{which}.txt")))
        case _:
            yield from _of_simulation(int(which))


def _of_cases(rule: str) -> Blocks:
    cases = [(case, observed) for case in cases_of_rule(rule) for observed in case.observed()]
    subjects = {str(one.subject) for _, observed in cases for one in evaluated(observed).findings if one.rule == rule}
    subjects |= {line.partition(" ")[2] for case, _ in cases for line in case.commands if line.startswith("resolved ")}
    for number, (case, observed) in enumerate(cases):
        known = Facts(observed) if isinstance(observed, Quorum) else observed
        resolved = (f"resolved {each}: {resolved_text(rule, Subject.of(each), known)}" for each in sorted(subjects))
        yield f"{case.id} {number}", [*_lines(observed), *resolved]


def _of_script(path: Path) -> Blocks:
    run, blocks = ScriptRun(), commands_of(path.read_text(encoding="utf-8"))
    for number, line in enumerate(chain.from_iterable(commands for _, commands in blocks)):
        before = len(run.alerts)
        printed = [*run.run(line)]
        alerts = [_alert(one) for one in run.alerts[before:]]
        outputs = _lines(run.monitor.machine.quorum()) if run.monitor is not None else ()
        yield f"{number} {line}", [*printed, *alerts, *outputs]


def _of_simulation(seed: int) -> Blocks:
    """A third of them with controllers that lose each other's access, every fifth without the log."""
    simulation = RecordedSimulation(seed, polls_only=seed % 5 == 4)
    simulation.fault_injection.of_access = 7 if seed % 3 == 1 else 1
    simulation.run(STEPS)
    monitor = simulated_monitor(simulation.gatherer.bootstrap)
    for number, row in enumerate(simulation.rows):
        alerts = [_alert(one) for one in monitor.apply((row,)).alerts]
        if alerts or number % _EVERY_ROWS == 0:
            yield str(number), [*alerts, *_lines(monitor.machine.quorum(), monitor.settings.thresholds)]


def _alert(alert: Alert) -> str:
    return f"alert {to_line(alert, Millis(0)).decode()} {alert.facts}"


def _lines(observed: Quorum | JobState, thresholds: Mapping[str, Thresholds] | None = None) -> Iterator[str]:
    if isinstance(observed, JobState):
        yield from _evaluation(evaluate_job(observed, thresholds_for({})))
        return
    state = cluster_state(observed, thresholds or thresholds_for({}))
    outputs = outputs_of(observed, thresholds=thresholds)
    yield from _evaluation(outputs.evaluation)
    yield from (f"resolved {name}: {text}" for name, text in outputs.resolved.items())
    yield from (f"status {name}: {_json(value)}" for name, value in status_json(outputs.status).items())
    yield from printed_status(outputs.status).splitlines()
    yield from check_text(state, outputs.status).plain.splitlines()
    for answer in outputs.restarts.values():
        yield from restart_text(restart_json(state, answer)).plain.splitlines()
        yield _json(restart_json(state, answer))
    for command, (_, result) in outputs.what_ifs.items():
        yield f"{command}: {what_if_text(result).plain}"
        yield _json(what_if_json(result))
    sample = ClusterSample(status=outputs.status, rates=Rates())
    for spec in (*KIP_METRICS, *QUORUM_METRICS):
        yield f"metric {spec.name}: {spec.read(sample)}"


def _evaluation(evaluation: Evaluation) -> Iterator[str]:
    for one in evaluation.findings:
        yield f"{one.severity} {one.rule} {one.subject}: {one.summary}"
        yield from (f"  {name}: {_json(value)}" for name, value in one.evidence.items())
        yield from (f"  {step}" for step in one.remedy)
        further = (one.facts, one.starts, sorted(one.keep_running), one.condition_age_ms, one.hold_ms)
        yield f"  {further}"
    yield from (f"unknown {one.rule} {one.subject}: {one.why}" for one in evaluation.unknown)
    yield from (f"not applicable {one.rule}: {one.why}" for one in evaluation.not_applicable)
    yield from (f"failed {rule}: {why}" for rule, why in evaluation.failed.items())


def _json(value: object) -> str:
    return json.dumps(value, default=str)
