"""`kraftwatch bundle`: one file that a colleague opens as a journal, and that holds no secret."""

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.cli.program import kraftwatch, usage_error

CANARY = "c4n4ry-5ecret"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a secret in every place that takes one."""
    folder = tmp_path_factory.mktemp("config")
    (folder / "password").write_text(CANARY)
    (folder / "password").chmod(0o600)
    file = folder / "kraftwatch.yaml"
    file.write_text(
        f"""clusters:
  - name: prod
    bootstrap: [c1.test:9093]
    security_protocol: SASL_PLAINTEXT
    sasl_mechanism: PLAIN
    sasl_plain_username: monitor
    sasl_plain_password: {CANARY}
  - name: staging
    bootstrap: [c2.test:9093]
    security_protocol: SASL_PLAINTEXT
    sasl_mechanism: PLAIN
    sasl_plain_username: monitor
    sasl_plain_password: {{file: {folder / "password"}}}
sinks:
  - slack: {{webhook_url: https://hooks.slack.com/services/{CANARY}}}
  - webhook: {{url: https://hooks.test/{CANARY}, headers: {{X-Key: {CANARY}}}}}
thresholds:
  no-leader: {{hold: 7}}
"""
    )
    file.chmod(0o600)
    return file


def test_bundle_gives_the_same_status_replay_and_timeline_as_the_checkpoint(recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "incident.tar.gz"

    made = kraftwatch("bundle", "--checkpoint", recorded, "--output", file)

    assert made.exit_code == 0, made.output
    assert made.stdout.strip() == str(file)
    assert file.stat().st_mode & 0o777 == 0o600
    for verb in (("timeline", "--json"), ("replay", "--json"), ("status", "--json", "--only", "prod")):
        results = [kraftwatch(verb[0], "--journal", source, *verb[1:]) for source in (recorded, file)]
        assert [one.exit_code for one in results] == [0, 0], [one.output for one in results]
        first, second = ([without_age(line) for line in one.stdout.splitlines()] for one in results)
        assert first == second
        assert first


def test_bundle_holds_no_secret_of_the_configuration(recorded: Path, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "incident.tar.gz"

    made = kraftwatch("bundle", "--checkpoint", recorded, "--output", file, "--config", config)

    assert made.exit_code == 0, f"{made.output} {made.exception}"
    content = gzip.decompress(file.read_bytes())
    assert b"no-leader" in content
    assert b"c1.test:9093" in content
    assert CANARY.encode() not in content
    assert str(config.parent / "password").encode() not in content


@pytest.mark.parametrize("leads_to", [None, "existing", "absent"], ids=["a file", "a link", "a link to nothing"])
def test_bundle_writes_only_a_new_file(leads_to: str | None, recorded: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "incident.tar.gz", tmp_path / "existing"
    other.write_text("of somebody else")
    if leads_to is None:
        file.write_text("of somebody else")
    else:
        file.symlink_to(tmp_path / leads_to)

    assert f"--output {file} exists: name another file" in usage_error(
        "bundle", "--checkpoint", recorded, "--output", file
    )

    assert {path.name for path in tmp_path.iterdir()} == {"incident.tar.gz", "existing"}
    assert other.read_text() == "of somebody else"
    assert file.is_symlink() == (leads_to is not None)


@pytest.mark.parametrize("content", [b"", b"not a bundle", gzip.compress(b"x" * 2_000, mtime=0)])
def test_file_that_is_no_bundle_is_a_usage_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.tar.gz"
    file.write_bytes(content)

    assert "is not a bundle" in usage_error("timeline", "--journal", file)


@pytest.mark.parametrize(
    "config",
    [
        "{}",
        '{"clusters": [{"name": "prod", "bootstrap": ["c1:9093"], "thresholds": 7}], "watched": ["prod"]}',
        '{"clusters": ' + "[" * 100_000,
    ],
    ids=["none", "a number", "nested"],
)
def test_bundle_with_a_damaged_configuration_is_a_usage_error(config: str, recorded: Path, tmp_path: Path) -> None:
    file = tmp_path / "damaged.tar.gz"
    kraftwatch("bundle", "--checkpoint", recorded, "--output", file)
    with tarfile.open(file) as packed:
        packed.extractall(tmp_path / "members", filter="data")
    (tmp_path / "members" / "bundle.json").write_text(f'{{"config": {config}}}')
    with tarfile.open(file, "w:gz") as packed:
        packed.add(tmp_path / "members", arcname="")

    assert "damaged" in usage_error("status", "--journal", file)


def test_member_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "evil.tar.gz"
    with tarfile.open(file, "w:gz") as packed:
        for name in ("bundle.json", "../outside"):
            packed.addfile(tarfile.TarInfo(name))

    assert usage_error("timeline", "--journal", file)
    assert not (tmp_path / "outside").exists()


def without_age(line: str) -> object:
    """A status says how old it is now."""
    found = json.loads(line)
    return {name: value for name, value in found.items() if name not in {"age_ms", "taken_at", "age_s", "now"}}


def test_unpacked_bundle_is_removed_on_sigterm(recorded: Path, tmp_path: Path) -> None:
    file, temporary = tmp_path / "incident.tar.gz", tmp_path / "tmp"
    temporary.mkdir()
    assert kraftwatch("bundle", "--checkpoint", recorded, "--output", file).exit_code == 0
    verb = f"lambda **_: (unpacked_bundle(Path({str(file)!r})), print('unpacked', flush=True), signal.pause())"
    program = (
        "import signal; from pathlib import Path; from streaming import cli\n"
        f"from connectors.store.bundle_file import unpacked_bundle; cli.app = {verb}; cli.main()"
    )

    with subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"unpacked\n"
        assert list(temporary.glob("kraftwatch-bundle-*"))
        process.terminate()
        process.communicate(timeout=60)

    assert process.returncode == 128 + signal.SIGTERM
    assert list(temporary.iterdir()) == []
