"""What is slow to load is loaded only where it is used. The audit, for one, is a process of its own."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

HEAVY = ("great_expectations", "scipy", "altair")


def loaded_by(module: str, packages: Sequence[str] = HEAVY) -> set[str]:
    """Returns which of the packages a process has loaded after the import of this module."""
    program = f"import sys, {module}; print(*(name for name in {packages} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_the_job_does_not_load_the_packages_of_the_audit() -> None:
    assert loaded_by("streaming.job.job") == set()
    assert all(find_spec(name) for name in HEAVY)


def test_reading_the_configuration_loads_no_database() -> None:
    assert loaded_by("streaming.config", ("sqlalchemy", "pydantic")) == {"pydantic"}


def test_replaying_a_recording_loads_no_kafka_client() -> None:
    assert loaded_by("streaming.report.incident_report", ("kafka", "confluent_kafka", "pydantic")) == {"pydantic"}
