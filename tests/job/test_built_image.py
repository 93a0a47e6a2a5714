"""The image, built by buildah without Docker, runs a job of its own user on a real quorum."""

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.job.built_image import IMAGE, build_image, run

pytestmark = [
    pytest.mark.lab,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    pytest.mark.debian("buildah", "mmdebstrap"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root may change the root folder"),
]

LAB = {"controllers": 1, "brokers": 0}


@pytest.fixture(scope="module")
def environment(folder: Path) -> Mapping[str, str]:
    """Of buildah, which has the image."""
    return build_image(folder / "image")


@pytest.fixture(scope="module")
def container(environment: Mapping[str, str]) -> str:
    """A container of the image."""
    return run("buildah", "from", IMAGE, env=environment).strip()


def test_a_job_of_the_image_evaluates_and_ends(
    lab: Lab, folder: Path, container: str, environment: Mapping[str, str]
) -> None:
    state, address = folder / "state", f"127.0.0.1:{Ports().claim()}"
    state.mkdir()
    shutil.chown(state, 10001, 10001)
    # The name of a container is known to no name server here.
    options = ["--isolation", "chroot", "--env", "SPARK_LOCAL_IP=127.0.0.1", "--volume", f"{state}:/var/lib/kraftwatch"]
    inside = ["buildah", "run", *options, container, "--"]
    who = run(
        *inside, "sh", "-c", "id -u; ls $SPARK_HOME/jars | grep -c -e hadoop-aws -e S3CheckpointFiles", env=environment
    )
    assert who.split() == ["10001", "2"]

    command = [*inside, "kraftwatch", "run", "--cluster", f"test={','.join(lab.bootstrap)}", "--listen", address]
    command += ["--checkpoint", "/var/lib/kraftwatch/checkpoint"]
    job = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        eventually(lambda: assert_ready(address), within_s=240, every_s=1)
    finally:
        # Python itself: the command lines of buildah's processes end with the same words.
        subprocess.run(["pkill", "-TERM", "-f", f"^[^ ]*python[^ ]* [^ ]*kraftwatch run .*{address}"], check=False)
        assert job.wait(60) == 0
    assert (state / "checkpoint" / "spark" / "commits").is_dir()


def assert_ready(address: str) -> None:
    try:
        with closing(urllib.request.urlopen(f"http://{address}/readyz", timeout=5)) as answer:
            assert answer.status == 200
    except OSError as problem:
        raise AssertionError(str(problem)) from None
