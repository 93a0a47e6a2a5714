"""The documentation site: a strict build succeeds, links, anchors and examples are valid, no page loads from others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from connectors.sinks.sink_config import MessageLinks
from rules.evaluate import ALL_RULES
from streaming.config import checked

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
LOADED_URL = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]*)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(to)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, "\n".join(line for line in result.stderr.splitlines() if "INFO" not in line)
    return to


def test_link_of_every_alert_opens_the_page_of_its_rule(site: Path) -> None:
    links = MessageLinks(docs_url=site.as_uri())

    for rule in ALL_RULES:
        link = links.rule(rule)
        assert link is not None
        page = Path(link.removeprefix("file://")) / "index.html"
        assert rule in page.read_text()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    loaded = {found for page in site.rglob("*.html") for found in LOADED_URL.findall(page.read_text())}

    assert {each for each in loaded if "squidfunk" not in each} == set()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_top_level_pages_are_valid(name: str) -> None:
    for link in LINK.finditer((ROOT / name).read_text()):
        target = ROOT / (link["path"] or name)
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in {slug(each) for each in re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)}


@pytest.mark.parametrize(
    "example", re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "alerts.md").read_text(), re.DOTALL)
)
def test_every_example_of_the_page_about_alerts_is_a_configuration(example: str) -> None:
    data = yaml.safe_load(example)
    clusters = [{"name": name, "bootstrap": [f"{name}:9093"]} for name in ("prod-eu", "staging-eu")]
    config = checked({"clusters": clusters, **data}, "docs/alerts.md")
    assert len(config.sinks) == len(data["sinks"])


def slug(heading: str) -> str:
    """Returns the anchor of a heading as mkdocs and GitHub form it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
