"""The documentation site: a strict build succeeds, links, anchors and examples are valid, no page loads from others."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from connectors.relay import relay_message
from connectors.sinks.sink_config import MessageLinks
from connectors.store import journal_file
from connectors.store.revisions import REVISION
from rules.claims.claim import Question
from rules.evaluate import ALL_RULES
from streaming.config import checked
from streaming.data_quality.quarantine_report import STATUS_TEXTS
from streaming.pipeline import checkpoint
from streaming.replay import state_codec
from tests import docs_site
from tests.page_tables import DOCS, tables_of

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
LOADED_URL = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?((?:https?:)?//[^\"\s>]*)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    docs_site.build(to)
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

    assert loaded == set()


class Page(HTMLParser):
    """A page of the site: the addresses that it links to or loads, and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.anchors = {""}
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.addresses.add(value)
            elif name == "id" and value is not None:
                self.anchors.add(value)


def test_links_pictures_and_anchors_of_all_pages_exist(site: Path) -> None:
    """The builder checks links in the text of pages; this also checks pictures and what is around the text."""
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    assert len(pages) > 70
    for file, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{file.relative_to(site)}: {address}"
            assert target not in pages or unquote(parts.fragment) in pages[target].anchors, f"{file}: {address}"


def test_each_page_has_a_twin_in_markdown_that_llms_txt_lists(site: Path) -> None:
    pages = {file.parent for file in site.rglob("index.html")}
    listed = {site / link["path"] for link in LINK.finditer((site / "llms.txt").read_text())}

    assert listed == {folder / "index.md" for folder in pages}
    for twin in listed:
        for link in LINK.finditer(twin.read_text()):
            assert not link["path"] or (twin.parent / link["path"]).exists(), f"{twin.relative_to(site)}: {link[0]}"


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
    """Returns the anchor of a heading as zensical and GitHub form it."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_the_readme_says_what_the_idle_job_takes_by_the_table_of_the_bench() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", tables_of(DOCS / "performance.md")["idle"], re.MULTILINE)
    measured = dict(rows)
    cpu, memory_mb = (float(measured[name].replace(",", "")) for name in ("cpu percent", "memory mb"))

    assert f"An idle job takes {cpu:.0f} % of a core and {memory_mb / 1000:.1f} GB." in (ROOT / "README.md").read_text()


def test_the_stored_formats_have_their_present_versions() -> None:
    page = (DOCS / "operations.md").read_text()

    for version in (
        f"`alembic_version`: {REVISION}",
        f"its fourth byte: {state_codec.VERSION}",
        f"SQLite's `user_version`: {journal_file.VERSION}",
        f"`cluster.json`: {checkpoint.VERSION}",
        f"the first byte of the value: {relay_message.VERSION}",
    ):
        assert f"{version} |" in page


def test_page_of_contracts_explains_each_result_of_a_quarantined_item() -> None:
    page = (DOCS / "data-contracts.md").read_text()

    assert [text for text in STATUS_TEXTS.values() if f"- `{text}`: " not in page] == []


def test_page_of_alerts_explains_each_question_of_a_claim() -> None:
    page = (DOCS / "alerts.md").read_text(encoding="utf-8")
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`([a-z-]+)`", row)
    }

    assert {*Question} <= named, "docs/alerts.md, What an alert claims"
