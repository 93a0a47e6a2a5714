"""The image's recipe, read line by line: nothing here builds it (that needs an engine), so what can be known is."""

import re
import subprocess
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.unit.deploy.recipes.shapes import COMPOSE

ROOT = Path(__file__).parents[4]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {
    *("FROM", "ARG", "ENV", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
    *("ENTRYPOINT", "CMD", "LABEL", "SHELL"),
}

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Each instruction and what it says, continued lines joined and comments left out."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def said(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def test_every_line_is_an_instruction_and_the_first_names_the_base() -> None:
    assert {word for word, _ in instructions()} <= INSTRUCTIONS
    assert instructions()[0][0] == "FROM"


def test_each_base_is_pinned_by_a_tag_that_is_not_latest() -> None:
    bases = [base.split()[0] for base in said("FROM")]

    assert bases
    assert all(re.fullmatch(r"[a-z/]+:(?!latest)[\w.-]+", base) for base in bases)


def test_what_is_copied_is_there_or_made_by_make_wheel_and_let_through() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wheel = f"dist/{project['name']}-{project['version']}-py3-none-any.whl"
    copied = [source for line in said("COPY") if "--from=" not in line for source in line.split()[:-1]]
    let_through = [
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    ]

    assert wheel in copied
    for source in copied:
        assert source == wheel or (ROOT / source).is_file()
        assert any(Path(source).match(each) or source.startswith(each) for each in let_through)


def test_what_is_copied_from_a_stage_was_made_there() -> None:
    stages = {line.split()[-1] for line in said("FROM") if " AS " in line}

    assert {stage for line in said("COPY") for stage in re.findall(r"--from=(\S+)", line)} == stages
    assert any("venv /opt/kraftwatch" in line for line in said("RUN"))


def test_packages_come_with_hashes_and_lists_are_not_left_behind() -> None:
    runs = said("RUN")

    assert all("--require-hashes" in each or "--no-deps" in each for each in runs if "pip install" in each)
    assert all("--no-cache-dir" in each for each in runs if "pip install" in each)
    for each in (each for each in runs if "apt-get install" in each):
        assert "--no-install-recommends" in each
        assert "rm -rf /var/lib/apt/lists/*" in each
    assert not [each for each in runs if "sudo" in each or "curl" in each or "| sh" in each]


def test_it_runs_as_nobody_special_under_an_id_that_has_a_name() -> None:
    (user,) = said("USER")
    (made,) = re.findall(r"useradd --uid (\d+)", " ".join(said("RUN")))

    assert user == f"{made}:{made}"
    assert int(made) >= 10000
    words = [word for word, _ in instructions()]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word in ("RUN", "COPY"))


def test_its_python_is_the_one_that_spark_is_found_in() -> None:
    (version,) = {re.search(r":(3\.\d+)", base)[1] for base in said("FROM")}  # type: ignore[index]  # asserted before
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    assert f"/opt/kraftwatch/lib/python{version}/site-packages/pyspark" in " ".join(said("ENV"))
    assert tuple(map(int, version.split("."))) >= tuple(map(int, requires.removeprefix(">=").split(".")))


def test_the_health_check_asks_the_page_that_there_is_on_the_port_that_is_listened_on() -> None:
    (check,), (command,), (port,) = said("HEALTHCHECK"), said("CMD"), said("EXPOSE")
    words = yaml.safe_load(command)

    assert f"127.0.0.1:{port}/healthz" in check
    assert words[words.index("--listen") + 1].endswith(f":{port}")
    assert words[words.index("--checkpoint") + 1].startswith(yaml.safe_load(said("VOLUME")[0])[0])


@pytest.fixture
def door(tmp_path: Path) -> dict[str, str]:
    """An environment in which java, spark-submit and kraftwatch say what they were called with."""
    for name in ("java", "spark-submit", "kraftwatch"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
        program.chmod(0o755)
    return {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SPARK_HOME": "/spark",
        "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7",
        "SPARK_JAVA_OPT_10": "-Dten=10",
        "SPARK_JAVA_OPT_2": "-Dtwo=a b",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_DRIVER_URL": "spark://driver:7078",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "exec-1",
    }


def called(door: dict[str, str], *arguments: str) -> str:
    ran = subprocess.run(
        ["/bin/bash", DEPLOY / "spark" / "entrypoint.sh", *arguments],
        env=door, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ran.stdout.strip()


def test_the_door_leads_to_kraftwatch_and_to_what_spark_asks_for(door: dict[str, str]) -> None:
    assert called(door, "status", "--help") == "kraftwatch status --help"
    assert called(door, "driver", "--class", "x", "local:///job.py") == (
        "spark-submit --conf spark.driver.bindAddress=10.0.0.7 --deploy-mode client --class x local:///job.py"
    )
    executor = called(door, "executor")
    assert executor.startswith(
        "java -Dtwo=a b -Dten=10 -Xms512m -Xmx512m -cp /spark/conf:/spark/jars/* org.apache.spark."
    )
    assert executor.endswith("--resourceProfileId 0 --podName exec-1")


def test_compose_takes_the_compose_file_and_what_it_names_is_there() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["kraftwatch"]

    jsonschema.validate(compose, COMPOSE)
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert {each["source"] for each in service["configs"]} == set(compose["configs"])
    assert {each["source"] for each in service["secrets"]} == set(compose["secrets"])
    assert {each.split(":")[0] for each in service["volumes"]} == set(compose["volumes"])
    assert service["user"] == said("USER")[0]
    assert all(each.startswith("127.0.0.1:") for each in service["ports"]), "the page asks for no login"


def test_a_compose_file_with_a_key_that_there_is_not_is_refused() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    compose["services"]["kraftwatch"]["restrat"] = "always"

    with pytest.raises(jsonschema.ValidationError, match="restrat"):
        jsonschema.validate(compose, COMPOSE)
