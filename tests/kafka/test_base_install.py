"""The wheel in an empty environment, with the packages of its base from the registry, on a real quorum."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from deploy.build_version import version as build_version
from streaming import cli
from tests.eventually import eventually
from tests.job.configured_job import section
from tests.job.relay_process import RelayProcess
from tests.kafka.topic_messages import topic_messages
from tests.lab import Lab
from tests.wheel import install_base

pytestmark = [pytest.mark.lab, pytest.mark.long]

BASE_MB = 85
"""`tests/unit/test_base_package.py` has the size of its packages; kraftwatch itself has 3 MB."""
OF_EXTRAS = (
    *("apprise", "google", "great_expectations", "numpy", "opentelemetry", "pandas", "psycopg", "pyarrow"),
    *("pyspark", "scipy"),
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the bin folder of the environment."""
    return install_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=1)


@pytest.fixture
def relay(base: Path, lab: Lab, tmp_path: Path) -> Iterator[RelayProcess]:
    clusters = [section("lab", lab)]
    relay = RelayProcess(tmp_path, lab, topic="kraftwatch", clusters=clusters, python=base / "python")
    relay.start()
    yield relay
    assert relay.stop() == 0, relay.log


def kraftwatch(base: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [str(base / "kraftwatch"), *map(str, words)]
    return subprocess.run(command, cwd=base, capture_output=True, text=True, check=False, timeout=120)


def cluster_of(lab: Lab) -> str:
    return f"lab={','.join(lab.bootstrap)}"


def test_the_environment_is_small_and_has_no_package_of_an_extra(base: Path) -> None:
    (packages,) = base.parent.glob("lib/python*/site-packages")
    files = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]

    assert sum(path.stat().st_size for path in files) < BASE_MB * 1e6
    assert not {*OF_EXTRAS} & {path.name for path in packages.iterdir()}


def test_version_and_the_help_of_every_verb(base: Path) -> None:
    version = kraftwatch(base, "--version")
    assert (version.returncode, version.stdout) == (0, f"kraftwatch {build_version()}\n")
    verbs = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    assert len(verbs) > 15
    for words in ([], *([name] for name in verbs), *(["data", name] for name in verbs["data"].commands)):
        printed = kraftwatch(base, *words, "--help")
        assert printed.returncode == 0, printed.stderr
        assert "Usage: kraftwatch" in printed.stdout


def test_on_call_commands_query_a_real_quorum(base: Path, lab: Lab) -> None:
    given = ("--cluster", cluster_of(lab), "--json")
    eventually(lambda: kraftwatch(base, "check", *given).returncode == 0, within_s=60, every_s=1)

    status = json.loads(kraftwatch(base, "status", *given).stdout)
    assert status["leader_id"] in lab.controllers
    for words in ("data", "replication"), ("data", "partitions"), ("safe-to-restart", lab.controllers[0]):
        printed = kraftwatch(base, *words, *given)
        assert printed.returncode == 0, printed.stderr
        assert json.loads(printed.stdout)["cluster"] == "lab"


def test_the_doctor_ends_with_0_although_the_job_is_not_installed_here(base: Path, lab: Lab, tmp_path: Path) -> None:
    """Also with the configuration of a job elsewhere, whose folders are not on this machine."""
    file = tmp_path / "kraftwatch.yaml"
    job = {"checkpoint": "/proc/kraftwatch", "listen": "127.0.0.1:1", "sinks": ["console"]}
    file.write_text(json.dumps({"clusters": [section("lab", lab)], **job}))
    for words in ("--cluster", cluster_of(lab)), ("--config", file):
        printed = kraftwatch(base, "doctor", *words, "--json")

        checks = json.loads(printed.stdout)["checks"]
        assert printed.returncode == 0, [one for one in checks if one["verdict"] != "ok"]
        assert [one["remedy"] for one in checks if one["subject"] == "job"] == [[install_command(base, "job")]]


def install_command(base: Path, extra: str) -> str:
    return f"{base}/python -m pip install 'kraftwatch[{extra}]=={build_version()}'"


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        ("run --cluster lab=127.0.0.1:1", "Spark", "job"),
        ("demo", "Spark", "job"),
        ("lab up", "Spark", "job"),
        ("data export --output lake --checkpoint .", "Spark", "job"),
        ("data audit --checkpoint .", "Great Expectations", "audit"),
    ],
)
def test_a_command_of_an_extra_is_refused_in_one_sentence(base: Path, words: str, library: str, extra: str) -> None:
    verb = words.partition(" --")[0]
    refused = kraftwatch(base, *words.split())

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"kraftwatch: kraftwatch {verb} needs {library}, which the base package does not install: "
        f"{install_command(base, extra)}\n"
    )


def test_the_recorded_demo_sends_its_alerts_without_java_and_spark(base: Path, tmp_path: Path) -> None:
    played = kraftwatch(base, "demo", "--recorded", "--sink", f"jsonl:{tmp_path / 'alerts'}", "--sink", "console")

    assert played.returncode == 0, played.stderr
    lines = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    assert [one["rule"] for one in lines if one["state"] == "resolved"] == ["broker-fenced"]
    assert "RESOLVED  demo  broker-fenced  broker 102" in played.stderr


def test_a_relay_writes_to_its_topic(lab: Lab, relay: RelayProcess) -> None:
    relay.wait_for_rows(10)

    assert topic_messages(",".join(lab.broker_bootstrap), "kraftwatch")
