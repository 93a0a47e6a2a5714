"""Every rule is checked against the ground truth alone: its alert fires in time, for nothing else, and resolves.

A planted error of any rule is found within ten seeds of an incident that must fire its alert.
"""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from rules.evaluate import RULES, thresholds_for
from rules.finding import CLEAR
from tests.simulation import alert_expectations
from tests.simulation.alert_expectations import CONDITIONS
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.incident_trace import traced_incident
from tests.simulation.incidents import INCIDENTS
from tests.simulation.planted_rule_errors import PLANTED
from tests.simulation.simulated_thresholds import CLEAR_S, HOLD_S, INHIBITED_BY, OVERRIDES

FOLDER = Path(__file__).parent
SEEDS = range(1, 11)
NOT_SIMULATED: dict[str, tuple[str, str]] = {}
"""Rules that the simulation cannot produce: the reason, and the test elsewhere that shows the rule."""
NOT_PRODUCED = {
    "monitor-blind of controller N": ("no controller is silent for five minutes", "tests/kafka/test_secured.py"),
    "monitor-blind of rule NAME": ("a rule that raises is a bug", "tests/unit/rules/test_evaluate.py"),
    "monitor-blind of relay of NAME": ("the simulation has no relay", "tests/job/test_relay_job.py"),
    "monitor-blind of sink NAME": (
        "the simulation delivers no alert",
        "tests/unit/connectors/delivery/test_dispatcher.py",
    ),
}
"""Subjects of these rules that the simulation does not produce."""
ALLOWED = ("connectors.observations", "rules.model")
"""What the expected alerts and the simulated quorum import of the product: records, observations, ids and types."""
PLAIN_OBSERVATION = "streaming.replay.decoded_row"
"""The gatherer imports `DecodedRow` from here, and nothing else."""


def imports_of(module: ModuleType) -> list[tuple[str, str]]:
    """Returns each imported module with the imported name; of `import x` the name is empty."""
    tree = ast.parse(Path(module.__file__ or "").read_text())
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return found


def reached_from(first: ModuleType) -> dict[str, ModuleType]:
    """Returns the modules of the tests that a module imports, directly and indirectly, by name."""
    reached, waiting = {first.__name__: first}, [first]
    while waiting:
        for name, imported in imports_of(waiting.pop()):
            for each in (name, f"{name}.{imported}"):
                is_module = each.startswith("tests.") and (FOLDER.parents[1] / f"{each.replace('.', '/')}.py").exists()
                if is_module and each not in reached:
                    reached[each] = importlib.import_module(each)
                    waiting.append(reached[each])
    return reached


def test_expected_alerts_are_derived_from_no_monitor_no_replay_and_no_rule() -> None:
    reached = reached_from(alert_expectations)
    product = {
        (name, imported, module)
        for module, content in reached.items()
        for name, imported in imports_of(content)
        if name.split(".")[0] in ("rules", "streaming", "connectors", "deploy")
    }

    assert {"tests.simulation.simulated_world", "tests.simulation.gatherer", "tests.simulation.oracle"} <= set(reached)
    assert "tests.simulation.alert_checker" not in reached
    assert "tests.simulation.simulation" not in reached
    foreign = {each for each in product if not each[0].startswith(ALLOWED)}
    assert foreign == {(PLAIN_OBSERVATION, "DecodedRow", "tests.simulation.gatherer")}


def test_every_rule_has_conditions_or_is_listed_with_a_reason() -> None:
    assert not CONDITIONS.keys() & NOT_SIMULATED.keys()
    assert CONDITIONS.keys() | NOT_SIMULATED.keys() == RULES.keys()
    assert {rule for incident in INCIDENTS.values() for rule in incident.rules} == CONDITIONS.keys()
    root = FOLDER.parents[1]
    assert all((root / place).exists() for _, place in [*NOT_SIMULATED.values(), *NOT_PRODUCED.values()])


def test_alerts_are_checked_by_the_thresholds_that_the_monitor_has() -> None:
    thresholds = thresholds_for(OVERRIDES)

    assert {rule: of_rule.ms("hold") / 1_000 for rule, of_rule in thresholds.items()} == HOLD_S
    assert {of_rule.ms(CLEAR) / 1_000 for of_rule in thresholds.values()} == {CLEAR_S}
    assert {rule.id: {*rule.inhibited_by} for rule in RULES.values() if rule.inhibited_by} == {
        rule: {*causes} for rule, causes in INHIBITED_BY.items()
    }


def incident_of(rule: str) -> str:
    """Returns the first incident that must fire the rule's alert."""
    return next(name for name, incident in INCIDENTS.items() if rule in incident.rules)


def caught_at(rule: str, error: str) -> int | None:
    """Returns the first seed with which the planted error is found; None if it is found with none of ten."""
    for seed in SEEDS:
        trace = traced_incident(incident_of(rule), seed)
        with pytest.MonkeyPatch.context() as patched:
            PLANTED[error](patched, rule)
            try:
                trace.check()
            except BrokenInvariant as broken:
                assert f"{rule} of " in str(broken), "another rule was blamed"
                return seed
    return None


@pytest.mark.parametrize("incident", INCIDENTS)
def test_an_incident_fires_the_alerts_of_its_rules_and_they_resolve(incident: str) -> None:
    counts = traced_incident(incident, 1).check()

    for rule in INCIDENTS[incident].rules:
        assert counts[f"{rule} firing"] >= 1
        assert counts[f"{rule} resolved"] >= 1


@pytest.mark.parametrize("error", PLANTED)
@pytest.mark.parametrize("rule", RULES)
def test_an_error_of_any_rule_is_found_within_ten_seeds(rule: str, error: str) -> None:
    assert caught_at(rule, error) is not None
