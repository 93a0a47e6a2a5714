"""The image, built by buildah without Docker, runs a job of its own user on a real quorum."""

import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from tests.eventually import eventually

pytestmark = [
    pytest.mark.lab,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    pytest.mark.debian("buildah", "mmdebstrap"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root may change the root folder"),
]

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/kraftwatch:0.1.0"
LAB = {"controllers": 1, "brokers": 0}


@pytest.fixture(scope="module")
def environment(folder: Path) -> Mapping[str, str]:
    """Of buildah, whose images are in the folder."""
    storage = folder / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)}


@pytest.fixture(scope="module")
def container(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A container of the image. Its base is what debian:bookworm-slim is: Debian's smallest installation."""
    base = folder / "base.tar"
    run("mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(base), env=environment)
    working = run("buildah", "from", "scratch", env=environment).strip()
    run("buildah", "add", "--quiet", working, str(base), "/", env=environment)
    run("buildah", "commit", "--quiet", working, "localhost/base", env=environment)
    run("make", "image", "BASE=localhost/base", f"IMAGE_OPTIONS={authorities(folder)}", env=environment)
    yield run("buildah", "from", IMAGE, env=environment).strip()
    shutil.rmtree(ROOT / "dist" / "image", ignore_errors=True)


def authorities(folder: Path) -> str:
    """Returns the options with which pip trusts what it trusts on this machine."""
    file = os.environ.get("PIP_CERT")
    if file is None:
        return ""
    settings = folder / "pip.conf"
    settings.write_text("[global]\ncert = /run/authorities.pem\n")
    return f"--volume {file}:/run/authorities.pem:ro --volume {settings}:/etc/pip.conf:ro"


def run(*command: str, env: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


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
