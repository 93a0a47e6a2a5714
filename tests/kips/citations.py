"""Citations: a pytest plugin that records which tests cite rows, which of them passed, and what is wrong."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.kips.rows import RowCoverage, evaluate, repository_lists

SLOW = ("lab", "spark", "long")
TESTS = Path(__file__).parents[1]
SIMULATOR = "tests.simulation"


class Citations:
    """With xdist, each worker collects all tests and passes its citations to the controller, which gets all reports.

    A citing test that is deselected because it is slow counts as passed: another target runs it.
    """

    def __init__(self) -> None:
        self.of: dict[str, frozenset[str]] = {}
        """The rows that each test cites, by the test's node id."""
        self.left_out: set[str] = set()
        """The slow citing tests that were deselected."""
        self._simulated: set[str] = set()
        self._passed: set[str] = set()
        self._failed: set[str] = set()
        self._coverage: RowCoverage | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            numbers = frozenset(str(number) for mark in item.iter_markers("kip") for number in mark.args)
            if numbers:
                self.of[item.nodeid] = numbers
                if uses_simulator(item):
                    self._simulated.add(item.nodeid)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self.left_out |= {item.nodeid for item in items if item.nodeid in self.of and is_slow(item)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed.add(report.nodeid)
        if not report.passed:
            self._failed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        found = getattr(node, "workeroutput", {}).get("citations")
        if found is not None:
            self.of |= {test: frozenset(numbers) for test, numbers in found["of"].items()}
            self.left_out |= {*found["left_out"]}
            self._simulated |= {*found["simulated"]}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["citations"] = {
                "of": {test: sorted(numbers) for test, numbers in self.of.items()},
                "left_out": sorted(self.left_out),
                "simulated": sorted(self._simulated),
            }
        elif self.faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for fault in self.faults:
            terminalreporter.write_line(f"rows: {fault}", red=True)
        coverage = self.coverage
        if not self.faults:
            covered, excused, _ = coverage.counts(row for row in coverage.rows.values() if row.required)
            terminalreporter.write_line(f"rows: {covered} are covered, {excused} are excused, 0 are open")

    @property
    def coverage(self) -> RowCoverage:
        """The coverage of this repository's rows; valid once the tests have run."""
        if self._coverage is None:
            passed = frozenset(self._passed - self._failed | self.left_out)
            self._coverage = evaluate(*repository_lists(), self.of, passed, frozenset(self._simulated))
        return self._coverage

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with rows, citations and excuses, one sentence each."""
        return (*self.coverage.faults, *marks_without_test(citing_modules(), self.of))


def is_slow(item: pytest.Item) -> bool:
    """Returns whether the test needs a real Kafka or Spark, or is long."""
    return any(item.get_closest_marker(name) for name in SLOW)


def uses_simulator(item: pytest.Item) -> bool:
    """Returns whether the test's module imports the simulated quorum."""
    module = item.getparent(pytest.Module)
    values = vars(module.obj).values() if module is not None else ()
    return any(str(getattr(value, "__module__", "")).startswith(SIMULATOR) for value in values)


def citing_modules() -> dict[str, str]:
    """Returns the text of every module below `tests` that cites rows, by its path in the repository."""
    texts = {path.relative_to(TESTS.parent).as_posix(): path.read_text() for path in TESTS.rglob("*.py")}
    return {name: text for name, text in sorted(texts.items()) if "mark.kip(" in text}


def marks_without_test(modules: Mapping[str, str], citations: Mapping[str, frozenset[str]]) -> Iterable[str]:
    """Yields each citation that belongs to no collected test, such as one of a helper function.

    Args:
        modules: their texts, by path.
        citations: the rows that each collected test cites, by the test's node id.
    """
    collected: dict[str, set[str]] = {}
    for test, numbers in citations.items():
        collected.setdefault(test.partition("::")[0], set()).update(numbers)
    for name, text in modules.items():
        lost = cited_in(text) - collected.get(name, set())
        yield from (f"{name} cites {number} on no test that is collected" for number in sorted(lost))


def cited_in(text: str) -> set[str]:
    """Returns the arguments of every `pytest.mark.kip(...)` in a module."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    marks = (node for node in calls if ast.unparse(node.func) == "pytest.mark.kip")
    return {str(arg.value) for node in marks for arg in node.args if isinstance(arg, ast.Constant)}
