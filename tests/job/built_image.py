"""The image, built by buildah without Docker, on what debian:bookworm-slim is: Debian's smallest installation."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/kraftwatch:0.1.0"


def build_image(folder: Path) -> Mapping[str, str]:
    """Builds the image; returns the environment of buildah, whose images are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    storage = folder / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage)}
    base = folder / "base.tar"
    run("mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(base), env=environment)
    working = run("buildah", "from", "scratch", env=environment).strip()
    run("buildah", "add", "--quiet", working, str(base), "/", env=environment)
    run("buildah", "commit", "--quiet", working, "localhost/base", env=environment)
    (ROOT / "dist").mkdir(exist_ok=True)
    # Files of tests run at once, and a build writes to `dist`.
    with (ROOT / "dist" / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run("make", "image", "BASE=localhost/base", f"IMAGE_OPTIONS={_authorities(folder)}", env=environment)
        shutil.rmtree(ROOT / "dist" / "image", ignore_errors=True)
    return environment


def run(*command: str, env: Mapping[str, str]) -> str:
    """Returns what a command prints."""
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def _authorities(folder: Path) -> str:
    """Returns the options with which pip trusts what it trusts on this machine."""
    file = os.environ.get("PIP_CERT")
    if file is None:
        return ""
    settings = folder / "pip.conf"
    settings.write_text("[global]\ncert = /run/authorities.pem\n")
    return f"--volume {file}:/run/authorities.pem:ro --volume {settings}:/etc/pip.conf:ro"
