"""The documents as a site: it builds strictly, every link and anchor leads somewhere, nothing comes from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.sinks.links import Links
from rules.evaluate import RULES
from tests.rule_pages import PAGES, pages

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]*)")


def built(to: Path, config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    command += ["--site-dir", str(to)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    ran = built(to, ROOT / "mkdocs.yml")
    assert ran.returncode == 0, "\n".join(line for line in ran.stderr.splitlines() if "INFO" not in line)
    return to


def test_every_alert_leads_to_its_rules_page(site: Path) -> None:
    links = Links(docs_url=site.as_uri())

    for rule in RULES:
        link = links.rule(rule)
        assert link is not None
        page = Path(link.removeprefix("file://")) / "index.html"
        assert "Silence it" in page.read_text()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = {found for page in site.rglob("*.html") for found in LOADED.findall(page.read_text())}

    assert {each for each in loaded if "squidfunk" not in each} == set()


@pytest.mark.parametrize(
    "mistake",
    ["[gone](gone.md)", "[no such place](index.md#gone)", "[absolute](/index.md)"],
    ids=lambda each: each[1:5],
)
def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, mistake: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\n{mistake}\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nplugins: []\nnav: [index.md]\ntheme: {{name: mkdocs}}\n"
    )

    ran = built(tmp_path / "site", config)

    assert ran.returncode != 0
    (warning,) = re.findall("WARNING .*", ran.stderr)
    assert mistake.partition("(")[2].removesuffix(")") in warning


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_the_links_of_the_repositorys_first_pages_lead_somewhere(name: str) -> None:
    for link in LINK.finditer((ROOT / name).read_text()):
        target = ROOT / (link["path"] or name)
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in {slug(each) for each in re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)}


def slug(heading: str) -> str:
    """The anchor of a heading, as mkdocs and the forges make it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_the_rules_pages_are_what_the_rules_say() -> None:
    assert {path.name: path.read_text() for path in PAGES.glob("*.md")} == pages(), "make goldens"
