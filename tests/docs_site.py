"""What mkdocs does for us while it builds the site (`hooks` in mkdocs.yml).

The documents are read in the repository as well: there their links lead to other files of it. On the site such a link
is the file's name, README's place is taken by the first page, and CONTRIBUTING.md and CHANGELOG.md are pages.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from rules.evaluate import RULES

ROOT = Path(__file__).parents[1]
TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents at the top of the repository, and the pages that they are on the site."""
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [kept for entry in config.nav or [] if (kept := there(entry)) is not None]
    return config


def there(entry: Any) -> Any:
    """An entry of the navigation without the pages that are not there; the rules' pages where they belong."""
    match entry:
        case {"Rules": _}:
            return {"Rules": ["rules/index.md", *({rule: f"rules/{rule}.md"} for rule in sorted(RULES))]}
        case str():
            return entry if entry in TOP.values() or (ROOT / "docs" / entry).exists() else None
        case dict():
            ((name, inside),) = entry.items()
            if isinstance(inside, str):
                return entry if there(inside) else None
            return {name: [kept for each in inside if (kept := there(each)) is not None]}
        case _:
            return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in TOP.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    of_the_top = source in TOP.values() and source != "index.md"
    home = ROOT if of_the_top else (ROOT / "docs" / source).parent
    return _LINK.sub(lambda link: site_link(link, home, Path(source).parent), markdown)


def site_link(link: re.Match[str], home: Path, folder: Path) -> str:
    """A link of a document whose folder in the repository is `home`, as it is in the site's `folder`."""
    target = (home / link["path"]).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        return link[0]
    inside = target.relative_to(ROOT)
    page = TOP.get(str(inside)) or (str(inside.relative_to("docs")) if inside.parts[0] == "docs" else None)
    if page is None:
        return link["text"] if str(inside) in link["text"] else f"{link['text']} (`{inside}`)"
    up = "../" * len(folder.parts)
    return f"[{link['text']}]({up}{page}{link['anchor'] or ''})"
