"""Builds the documentation as a static site: `python -m tests.docs_site FOLDER`.

For programs that read text, each page has a twin in Markdown (`metrics/index.md`), and `llms.txt` lists them.

The documents are also read in the repository, where links may name files outside docs. On the site such a link becomes
the file's name, the start page replaces README.md, and CONTRIBUTING.md and CHANGELOG.md are pages. So the site is built
from a copy, by zensical, which checks the links between pages and their anchors.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rules.evaluate import ALL_RULES

ROOT = Path(__file__).parents[1]
TOP_LEVEL_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents in the top folder of the repository, and their pages on the site."""
_TARGET = re.compile(r"\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


class DocsError(Exception):
    """The site cannot be built as the documents are; the text says why."""


def build(to: Path) -> None:
    """Builds the site in a folder, which it replaces.

    Raises:
        DocsError: a page is missing in the navigation, or a link is invalid.
    """
    with tempfile.TemporaryDirectory(prefix="kraftwatch-docs-") as name:
        work = Path(name)
        copy_documents(work / "docs")
        settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
        settings["nav"] = [with_rules(entry) for entry in settings["nav"]]
        existing = {str(path.relative_to(work / "docs")) for path in (work / "docs").rglob("*.md")}
        if wrong := existing ^ {*pages(settings["nav"])}:
            raise DocsError(f"nav of mkdocs.yml: a page is missing there or in docs: {', '.join(sorted(wrong))}")
        (work / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        built = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if built.returncode:
            # A traceback follows; the warnings are drawn in colours.
            raise DocsError(re.sub(r"\x1b\[[0-9;]*m", "", built.stderr).partition("Traceback")[0])
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(work / "site", to)
        write_twins(work / "docs", settings, to)


def write_twins(documents: Path, settings: Mapping[str, Any], to: Path) -> None:
    """Writes the Markdown of each page beside it, with links to other twins, and llms.txt (https://llmstxt.org)."""
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}", ""]
    for page in pages(settings["nav"]):
        markdown = (documents / page).read_text(encoding="utf-8")
        twin = to / twin_of(page)
        twin.write_text(with_twin_links(markdown, twin.parent.relative_to(to), Path(page).parent), encoding="utf-8")
        title = next((line.removeprefix("# ") for line in markdown.splitlines() if line.startswith("# ")), page)
        lines.append(f"- [{title}]({twin_of(page)})")
    (to / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def twin_of(page: str) -> str:
    """Returns the place of a page's Markdown: that of its HTML, with another ending."""
    return page if Path(page).name == "index.md" else f"{page.removesuffix('.md')}/index.md"


def with_twin_links(markdown: str, folder: Path, page_folder: Path) -> str:
    """Returns a page with its links relative to its twin's folder, those to pages as links to their twins."""

    def twin_link(link: re.Match[str]) -> str:
        if "//" in link["path"]:
            return link[0]
        target = os.path.normpath(page_folder / link["path"])
        target = twin_of(target) if target.endswith(".md") else target
        return f"]({os.path.relpath(target, folder)}{link['anchor'] or ''})"

    return _TARGET.sub(twin_link, markdown)


def copy_documents(folder: Path) -> None:
    """Copies the pages, with the links of the site, and the files that they show."""
    shutil.copytree(ROOT / "docs", folder)
    documents = [(path, path.relative_to(ROOT / "docs")) for path in sorted((ROOT / "docs").rglob("*.md"))]
    documents += [(ROOT / name, Path(page)) for name, page in TOP_LEVEL_PAGES.items() if page != "index.md"]
    for document, page in documents:
        text = document.read_text(encoding="utf-8")
        (folder / page).write_text(site_text(text, document.parent, page.parent), encoding="utf-8")


def with_rules(entry: Any) -> Any:
    """Returns an entry of the navigation; that of the rules lists their pages."""
    if entry == {"Rules": []}:
        return {"Rules": ["rules/index.md", *({rule: f"rules/{rule}.md"} for rule in sorted(ALL_RULES))]}
    return entry


def pages(nav: Iterable[Any]) -> Iterator[str]:
    """Yields the pages of a navigation."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for inside in entry.values():
                yield from pages([inside] if isinstance(inside, str) else inside)


def site_text(markdown: str, source_folder: Path, page_folder: Path) -> str:
    """Returns a document with the links of the site.

    Args:
        markdown: the document.
        source_folder: its folder in the repository.
        page_folder: the page's folder on the site, relative to that of the start page.
    """

    def site_link(link: re.Match[str]) -> str:
        target = (source_folder / link["path"]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return link[0]
        inside = target.relative_to(ROOT)
        page = TOP_LEVEL_PAGES.get(str(inside)) or (
            str(inside.relative_to("docs")) if inside.parts[0] == "docs" else None
        )
        if page is None:
            return link["text"] if str(inside) in link["text"] else f"{link['text']} (`{inside}`)"
        up = "../" * len(page_folder.parts)
        return f"[{link['text']}]({up}{page}{link['anchor'] or ''})"

    return _LINK.sub(site_link, markdown)


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]))
    except DocsError as problem:
        sys.exit(f"docs: {problem}")
