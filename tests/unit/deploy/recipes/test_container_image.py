"""Static checks of the Dockerfile and compose.yaml; `test_built_image` builds and runs the image."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[4]
DEPLOY = ROOT / "deploy"
Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Returns each instruction with its arguments; joins continued lines and skips comments."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def arguments_of(word: str) -> list[str]:
    """Returns the arguments of every instruction with this name."""
    return [rest for each, rest in instructions() if each == word]


def test_copied_files_exist_or_are_the_wheel_and_are_in_the_build_context() -> None:
    wheel = "dist/kraftwatch-*.whl"
    copied = [source for line in arguments_of("COPY") if "--from=" not in line for source in line.split()[:-1]]
    included = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]

    assert wheel in copied
    for source in copied:
        assert source in (wheel, "dist/s3a/*.jar") or (ROOT / source).is_file()
        assert any(Path(source).match(each) or source.startswith(each) for each in included)


def test_image_runs_as_an_unprivileged_user_with_a_name() -> None:
    (user,) = arguments_of("USER")
    (uid,) = re.findall(r"useradd --uid (\d+)", " ".join(arguments_of("RUN")))

    assert user == f"{uid}:{uid}"
    assert int(uid) >= 10000
    words = [word for word, _ in instructions()]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word in ("RUN", "COPY"))


def test_spark_home_uses_the_python_version_of_the_base_image() -> None:
    (base,) = arguments_of("ARG")
    assert base.endswith("debian:bookworm-slim")
    # Of Debian 12.
    assert "/opt/kraftwatch/lib/python3.11/site-packages/pyspark" in " ".join(arguments_of("ENV"))


def test_bytecode_is_in_the_image_whose_processes_write_none() -> None:
    runs = " ".join(arguments_of("RUN"))
    compiled = re.findall(r"-m compileall [^&]*--invalidation-mode unchecked-hash (/\S+)", runs)

    assert "PYTHONDONTWRITEBYTECODE=1" in " ".join(arguments_of("ENV"))
    # Debian's packages of Python compile the standard library.
    assert compiled == ["/opt/kraftwatch/lib"]
    assert "python -m streaming.pipeline.class_archive" in runs


def test_health_check_uses_the_port_of_the_command() -> None:
    (check,), (command,), (port,) = arguments_of("HEALTHCHECK"), arguments_of("CMD"), arguments_of("EXPOSE")
    words = yaml.safe_load(command)

    assert f"127.0.0.1:{port}/healthz" in check
    assert words[words.index("--listen") + 1] == f"127.0.0.1:{port}", "other containers would read the page"
    assert words[words.index("--checkpoint") + 1].startswith(yaml.safe_load(arguments_of("VOLUME")[0])[0])


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Returns an environment in which java, spark-submit and kraftwatch print their arguments."""
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


def output_of(environment: dict[str, str], *arguments: str) -> str:
    ran = subprocess.run(
        ["/bin/bash", DEPLOY / "spark" / "entrypoint.sh", *arguments],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ran.stdout.strip()


def test_entry_point_runs_kraftwatch_and_the_commands_of_spark(environment: dict[str, str]) -> None:
    assert output_of(environment, "status", "--help") == "kraftwatch status --help"
    assert output_of(environment, "driver", "--class", "x", "local:///job.py") == (
        "spark-submit --conf spark.driver.bindAddress=10.0.0.7 --deploy-mode client --class x local:///job.py"
    )
    executor = output_of(environment, "executor")
    assert executor.startswith(
        "java -Dtwo=a b -Dten=10 -Xms512m -Xmx512m -cp /spark/conf:/spark/jars/* org.apache.spark."
    )
    assert executor.endswith("--resourceProfileId 0 --podName exec-1")


JOB = "trap 'echo the job ends; exit 0' TERM; echo started; while :; do sleep 0.05; done"
WITH_JOB = f"""trap 'exit 143' TERM
/bin/sh -c "{JOB}" kraftwatch_job.py &
wait $!
exit 7
"""
WITHOUT_JOB = "trap 'exit 143' TERM; echo started; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("spark_submit", "printed", "code"),
    [(WITH_JOB, "the job ends\n", 7), (WITHOUT_JOB, "", 143)],
    ids=["while the job runs", "before it starts"],
)
def test_sigterm_to_the_drivers_pod_ends_the_job_and_java_with_it(
    environment: dict[str, str], tmp_path: Path, spark_submit: str, printed: str, code: int
) -> None:
    (tmp_path / "spark-submit").write_text(f"#!/bin/sh\n{spark_submit}\n")
    # On a busy machine the job may end before the command that ends it.
    (tmp_path / "pkill").write_text(f'#!/bin/sh\n{shutil.which("pkill")} "$@" && sleep 0.5\n')
    (tmp_path / "pkill").chmod(0o700)
    command = ["/bin/bash", str(DEPLOY / "spark" / "entrypoint.sh"), "driver"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "started\n"
        driver.terminate()
        assert (driver.stdout.read(), driver.wait()) == (printed, code)


def test_references_of_the_compose_file_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["kraftwatch"]

    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert {each["source"] for each in service["configs"]} == set(compose["configs"])
    assert {each["source"] for each in service["secrets"]} == set(compose["secrets"])
    assert {each.split(":")[0] for each in service["volumes"]} == set(compose["volumes"])
    assert service["user"] == arguments_of("USER")[0]
    assert all(each.startswith("127.0.0.1:") for each in service["ports"]), "only this machine may connect"


def test_compose_file_publishes_the_page_with_a_token() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    service = yaml.safe_load(text)["services"]["kraftwatch"]
    (command,) = arguments_of("CMD")
    words = [word.replace("127.0.0.1:9847", "0.0.0.0:9847") for word in yaml.safe_load(command)]

    # Docker forwards a published port to the container's own address, which is not a loopback address.
    assert service["command"] == words
    assert "page-token" in {each["source"] for each in service["secrets"]}
    (target,) = (each["target"] for each in service["secrets"] if each["source"] == "page-token")
    assert f"listen_token_file: /run/secrets/{target}" in text
