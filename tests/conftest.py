"""What holds for all tests: none is timed, because others run at the same time; Debian's packages may be missing.

Hypothesis tries the same examples at every run, so that a run that failed can be had again, and one that passed stays
one; with KRAFTWATCH_EXHAUSTIVE=1 it tries others each time, by `--hypothesis-seed=N` if that is given.
"""

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

EXHAUSTIVE = bool(os.environ.get("KRAFTWATCH_EXHAUSTIVE"))
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not EXHAUSTIVE, database=None
)
settings.load_profile("untimed")

PROGRAMS = {
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "prometheus": "promtool",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
"""The Debian packages that a test may be marked with, and a program of each that tells whether it is there."""
LEFT_OUT = "needs Debian's "


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        packages = [package for mark in item.iter_markers("debian") for package in mark.args]
        missing = [package for package in packages if shutil.which(PROGRAMS[package]) is None]
        if missing:
            item.add_marker(pytest.mark.skip(reason=LEFT_OUT + " ".join(missing)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out for want of a package, and how to get it."""
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())]
    left_out = [reason.partition(LEFT_OUT)[2] for reason in reasons if LEFT_OUT in reason]
    if left_out:
        packages = sorted({package for names in left_out for package in names.split()})
        terminalreporter.write_line(
            f"{len(left_out)} tests were left out, because they need Debian's {', '.join(packages)}: "
            f"apt-get install --no-install-recommends {' '.join(packages)}"
        )
