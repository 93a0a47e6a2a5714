"""Hooks of mkdocs (`hooks` in mkdocs.yml).

The documents are also read in the repository, where links may name files outside docs. On the site such a link becomes
the file's name, the start page replaces README.md, and CONTRIBUTING.md and CHANGELOG.md are pages.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from rules.evaluate import ALL_RULES

ROOT = Path(__file__).parents[1]
TOP_LEVEL_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents in the top folder of the repository, and their pages on the site."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [existing for entry in config.nav or [] if (existing := existing_pages(entry)) is not None]
    return config


def existing_pages(entry: Any) -> Any:
    """Returns an entry of the navigation without missing pages; inserts the rules' pages below `Rules`."""
    match entry:
        case {"Rules": _}:
            return {"Rules": ["rules/index.md", *({rule: f"rules/{rule}.md"} for rule in sorted(ALL_RULES))]}
        case str():
            return entry if entry in TOP_LEVEL_PAGES.values() or (ROOT / "docs" / entry).exists() else None
        case dict():
            ((name, inside),) = entry.items()
            if isinstance(inside, str):
                return entry if existing_pages(inside) else None
            return {name: [existing for each in inside if (existing := existing_pages(each)) is not None]}
        case _:
            return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in TOP_LEVEL_PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    is_top_level = source in TOP_LEVEL_PAGES.values() and source != "index.md"
    source_folder = ROOT if is_top_level else (ROOT / "docs" / source).parent
    return _LINK.sub(lambda link: site_link(link, source_folder, Path(source).parent), markdown)


def site_link(link: re.Match[str], source_folder: Path, page_folder: Path) -> str:
    """Returns the link for the site.

    Args:
        link: the link in the document.
        source_folder: the document's folder in the repository.
        page_folder: the page's folder on the site.
    """
    target = (source_folder / link["path"]).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        return link[0]
    inside = target.relative_to(ROOT)
    page = TOP_LEVEL_PAGES.get(str(inside)) or (str(inside.relative_to("docs")) if inside.parts[0] == "docs" else None)
    if page is None:
        return link["text"] if str(inside) in link["text"] else f"{link['text']} (`{inside}`)"
    up = "../" * len(page_folder.parts)
    return f"[{link['text']}]({up}{page}{link['anchor'] or ''})"
