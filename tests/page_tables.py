"""Tables that the code describes, in pages whose other text is written by hand (`make goldens`)."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"(?P<begin><!-- table: (?P<name>[a-z-]+) -->\n)(?P<table>.*?)(?P<end><!-- /table -->)", re.DOTALL)


def with_tables(page: Path, tables: Mapping[str, str]) -> str:
    """Returns the text of a page with each table between its two comments."""
    text = page.read_text(encoding="utf-8")
    assert {found["name"] for found in _TABLE.finditer(text)} == {*tables}, f"the tables of {page.name}"
    return _TABLE.sub(lambda found: f"{found['begin']}{tables[found['name']]}{found['end']}", text)


def tables_of(page: Path) -> dict[str, str]:
    """Returns each table of a page by its name."""
    found = _TABLE.finditer(page.read_text(encoding="utf-8"))
    return {each["name"]: each["table"] for each in found}


def table(head: str, rows: Iterable[str]) -> str:
    """Returns a table; `head` names its columns, and a row is a line."""
    return "".join(f"{line}\n" for line in (head, "|---" * (head.count("|") - 1) + "|", *rows))
