"""What is slow to load is loaded only where it is used. The audit, for one, is a command of its own."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

HEAVY = ("great_expectations", "scipy", "altair")


@pytest.mark.parametrize(
    ("module", "packages", "loaded"),
    [
        ("streaming.job.run", HEAVY, []),
        ("streaming.config", ("sqlalchemy", "pydantic"), ["pydantic"]),
        ("streaming.report.incident_report", ("kafka", "confluent_kafka", "pydantic"), ["pydantic"]),
    ],
    ids=["the job: the audit", "reading the configuration: a database", "replaying a recording: a Kafka client"],
)
def test_a_module_does_not_load_what_it_does_not_use(module: str, packages: tuple[str, ...], loaded: list[str]) -> None:
    program = f"import sys, {module}; print(*(name for name in {packages} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == loaded
    assert all(find_spec(name) for name in packages)
