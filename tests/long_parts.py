"""The parts of the long tests, each under an hour: `make test-long PART=NAME` runs one of them.

`python -m tests.long_parts [PART]` prints the files of all parts or of one, for pytest, and on stderr what they are and
how long they take.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
LONG = "pytest.mark.long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Long tests that run together; a file shares a quorum, so it is in one part."""

    name: str
    about: str
    minutes: int
    """About, with one worker on two cores that do nothing else."""
    places: tuple[str, ...]
    """Files and folders in `tests`, without `.py`."""

    def files(self) -> Iterator[Path]:
        """Yields its files."""
        for place in self.places:
            yield from self.files_in(place)

    @staticmethod
    def files_in(place: str) -> Iterator[Path]:
        """Yields the files with long tests of one of its places."""
        folder = TESTS / place
        files = sorted(folder.rglob("test_*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
        yield from (file for file in files if has_long_tests(file))


def has_long_tests(file: Path) -> bool:
    """Returns whether a file marks tests as long."""
    return LONG in file.read_text(encoding="utf-8")


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}" for name in names)


PARTS = (
    Part(
        name="core",
        about="without Kafka and Spark: forecasts of 100,000 states, rolls of 10,000 clusters, recordings",
        minutes=48,
        places=("sinks", "unit", *_in("simulation", "broker_rolls", "forecast", "operator")),
    ),
    Part(
        name="simulation",
        about="simulated quorums with other seeds, a million steps",
        minutes=45,
        places=("scripts", *_in("simulation", "incidents", "quiet_rows", "simulation")),
    ),
    Part(
        name="faults",
        about="faults of a real quorum, walks by safe-to-restart, what people are sent, the demo",
        minutes=58,
        places=(
            *_in("kafka", "alert_texts_live", "drift_scenarios", "election_outcomes", "ghosts", "restart_loops"),
            *_in("kafka", "restart_walk", "rule_scenarios_live"),
            *_in("job", "demo", "evaluated_faults", "floods"),
        ),
    ),
    Part(
        name="access",
        about="logins, permissions, certificates and lists of voters",
        minutes=18,
        places=(
            *_in("kafka", "configured_voters", "listener_migration", "scram_between_controllers", "secured"),
            *_in("kafka", "unlike_controllers"),
            *_in("job", "witnesses"),
        ),
    ),
    Part(
        name="versions",
        about="versions of Kafka, procedures of its documentation, damaged and rescued logs",
        minutes=35,
        places=(
            *_in(
                "kafka",
                "damaged_logs",
                "documented_procedures",
                "new_quorum",
                "rescue",
                "rescue_by_plan",
                "rescue_lost",
                "roles",
            ),
            *_in("kafka", "broker_restarts", "versions"),
            *_in("job", "rolling_upgrade"),
        ),
    ),
    Part(
        name="relay",
        about="relays and their topic",
        minutes=15,
        places=(
            *_in("kafka", "relay_topic", "topic_source"),
            *_in("job", "relay_changes", "relay_job", "relay_secured"),
        ),
    ),
    Part(
        name="job",
        about="restarts and reloads of a job, its store, two jobs, a million partitions, a Spark that hangs",
        minutes=45,
        places=_in(
            "job",
            *("acknowledgement", "active_and_standby", "million_partitions", "reload", "restart", "starved_start"),
            *("store_on_server", "silent_spark", "suspended_and_killed"),
        ),
    ),
    Part(
        name="upgrade",
        about="jobs and relays of the release before and of this one",
        minutes=15,
        places=_in("job", "upgrade"),
    ),
    Part(
        name="spark",
        about="Spark, its clusters and remote checkpoints",
        minutes=20,
        places=("spark", *_in("job", "cluster", "remote_checkpoint", "spark_tools", "yarn")),
    ),
    Part(
        name="image",
        about="the base installation, the image and Kubernetes (`make helm api-server` once)",
        minutes=15,
        places=("api_server", *_in("job", "built_image", "missing_dependencies"), *_in("kafka", "base_install")),
    ),
    Part(name="chaos", about="overlapping faults (root, nftables)", minutes=20, places=("chaos",)),
)


def main() -> int:
    """Prints the files of the part that is named, or of all parts."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [part for part in PARTS if name in ("", part.name)]
    if not chosen:
        names = ", ".join(part.name for part in PARTS)
        sys.stderr.write(f"test-long: there is no part {name}: PART= is one of {names}\n")
        return 2
    for part in chosen:
        sys.stderr.write(f"test-long: {part.name:8} {part.minutes:3} min with WORKERS=1: {part.about}\n")
    sys.stdout.write("\n".join(str(file.relative_to(TESTS.parent)) for part in chosen for file in part.files()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
