"""The lock files, and the SBOM that `make sbom` writes: it lists exactly the locked packages and their hashes."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[3]
LOCKS = {"kraftwatch.cdx.json": "deploy/requirements.txt", "kraftwatch-dev.cdx.json": "requirements.lock"}

Package = tuple[str, str, frozenset[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sbom")
    # The packages are installed, or this test would not run: make does not install them again.
    command = ["make", "--assume-old=.venv/.ready", "sbom", f"SBOM={folder}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return folder


def locked(text: str) -> list[Package]:
    """Returns name, version and hashes of each entry of a lock file."""
    entries = re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)(.*?)(?=^[a-z]|\Z)", text, re.MULTILINE | re.DOTALL)
    return sorted((name, version, frozenset(re.findall(r"sha256:(\w+)", rest))) for name, version, rest in entries)


def listed(sbom: dict[str, Any]) -> list[Package]:
    """Returns name, version and hashes of each component of an SBOM."""
    found = []
    for each in sbom["components"]:
        assert each["purl"].partition("?")[0] == f"pkg:pypi/{each['name']}@{quote(each['version'])}"
        hashes = (one for reference in each["externalReferences"] for one in reference["hashes"])
        found.append((each["name"], each["version"], frozenset(one["content"] for one in hashes)))
    return sorted(found)


def names(requirements: list[str]) -> set[str]:
    """Returns the names of packages, as a lock file has them."""
    return {re.split(r"[<>=\[;, ]", each)[0].lower().replace("_", "-") for each in requirements}


def test_production_lock_has_the_tested_versions() -> None:
    text = (ROOT / "deploy" / "requirements.txt").read_text()
    production, tested = locked(text), locked((ROOT / "requirements.lock").read_text())
    base = locked((ROOT / "deploy" / "requirements-base.txt").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for name, packages in project["optional-dependencies"].items() if name != "all" for one in packages]

    assert {*base} < {*production} < {*tested}, "make lock writes all three"
    assert names(project["dependencies"]) <= {name for name, _, _ in base}
    assert names(extras) <= {name for name, _, _ in production}
    assert not names(extras) & {name for name, _, _ in base}
    assert not {name for name, _, _ in production if name.startswith("pytest") or name in ("mypy", "ruff", "pagerduty")}
    assert "://" not in text


@pytest.mark.parametrize(("name", "lock"), LOCKS.items())
def test_sbom_is_valid_and_lists_the_locked_packages(folder: Path, name: str, lock: str) -> None:
    text = (folder / name).read_text()
    sbom = json.loads(text)
    expected = locked((ROOT / lock).read_text())

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert sbom["metadata"]["component"]["name"] == "kraftwatch"
    assert not {"serialNumber", "timestamp"} & {*sbom, *sbom["metadata"]}, "the same lock gives the same SBOM"
    assert listed(sbom) == expected
    assert len(expected) > 50
    assert all(hashes for _, _, hashes in expected)
