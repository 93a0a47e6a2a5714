"""Retired words: figures of speech that docs/glossary.md replaces must not come back, in names, texts or documents.

Part of `make check`. ALLOWED lists the words that stay, such as stored names, each with its reason.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

RETIRED = {
    "told": "notified, sent, reported",
    "telling": "notifications, sinks",
    "unseen": "failed observation",
    "sight": "observation source, visibility",
    "judge": "evaluate",
    "judged": "evaluated",
    "judgement": "evaluation",
    "leash": "child process supervision",
    "shelf": "ledger index",
    "desk": "notification planner",
    "portrait": "cluster status",
    "glimpse": "cluster state",
    "dossier": "cluster view",
    "chronicle": "history",
    "whereabouts": "node directory",
    "witness": "batch statistics",
    "mend": "fix",
    "mends": "fixes",
    "mended": "fixed",
    "heal": "recover",
    "heals": "recovers",
    "healed": "recovered",
    "cure": "fix",
    "cured": "fixed",
    "hurt": "fault, inject a fault",
    "harm": "fault",
    "wound": "fault",
    "wounds": "faults",
    "anew": "again",
    "likewise": "also",
    "wherein": "in which",
    "lest": "so that ... not",
    "whom": "name the component",
    "somebody": "name the component",
    "vanished": "does not resolve",
    "vouch": "reported by",
    "seats": "voter statuses",
    "glance": "status",
    "onlooker": "observer",
    "bite": "batch",
    "roll call": "identification",
    "for ever": "forever",
    "be it": "whether",
    "keeps up": "in sync, caught up",
    "keep up": "stay in sync",
    "by the word of": "reported by",
    "leads elsewhere": "is served by another node",
    "dead or moved": "unreachable (down or moved)",
}
"""Each retired word, and what to write instead."""


class Allowed(NamedTuple):
    """A retired word that stays in some files."""

    words: tuple[str, ...]
    files: str
    reason: str


ALLOWED = (
    Allowed(tuple(RETIRED), "tests/unit/test_retired_words.py", "the list itself"),
    Allowed(tuple(RETIRED), "tests/kips/rows.txt", "quotes the texts of the KIPs"),
    Allowed(tuple(RETIRED), "CHANGELOG.md", "lists former names"),
    Allowed(("unseen", "sight"), "connectors/observation*.py", "stored names of the journal"),
    Allowed(("sight",), "rules/model/stored_keys.py", "a stored name of the state blob and the journal"),
    Allowed(("told",), "rules/stored_conditions.py", "a stored name of the state blob"),
    Allowed(("told",), "connectors/delivery/ledger_record.py", "a stored name of the ledger"),
    Allowed(("told",), "connectors/sinks/slack_message_store.py", "a stored name of Slack's message store"),
    Allowed(("whereabouts",), "connectors/gather/endpoint_cache.py", "the name of a stored file"),
    Allowed(("unseen",), "connectors/gather/gatherer_stats.py", "a stored name of gather-stats.json"),
    Allowed(("unseen", "sight"), "streaming/metrics/*.py", "a stored name of gather-stats.json, and a metric's label"),
    Allowed(("sight",), "deploy/grafana/*", "a metric's label"),
    Allowed(("sight",), "deploy/prometheus/*", "a metric's label"),
    Allowed(("sight",), "docs/metrics.md", "a metric's label"),
    Allowed(("sight",), "streaming/status/evaluation_types.py", "a JSON name of `status --json`"),
    Allowed(("portrait",), "streaming/web/cluster_view.py", "a JSON name of /api/clusters/NAME"),
    Allowed(("portrait",), "docs/page.md", "a JSON name of /api/clusters/NAME"),
    Allowed(("mend",), "streaming/doctor/check_result.py", "a JSON name of `doctor --json`"),
    Allowed(("told",), "tests/sinks/test_slack.py", "a stored name of Slack's message store"),
    Allowed(("told",), "tests/unit/connectors/delivery/test_ledger.py", "a stored name of the ledger"),
    Allowed(("unseen", "sight"), "tests/unit/connectors/test_event_json.py", "stored names of the journal"),
    Allowed(
        ("unseen", "sight", "told"), "tests/unit/streaming/replay/*", "stored names of the journal and the state blob"
    ),
    Allowed(("unseen",), "tests/unit/streaming/data_quality/*", "a stored name of the journal"),
    Allowed(
        ("unseen", "sight"), "tests/unit/streaming/metrics/*", "a stored name of gather-stats.json, a metric's label"
    ),
    Allowed(("unseen", "portrait"), "tests/job/*", "stored names, a JSON name of /api/clusters/NAME"),
    Allowed(("unseen",), "tests/kafka/test_gather.py", "a stored name of gather-stats.json"),
    Allowed(("unseen",), "tests/cli/test_audit.py", "a stored name of the journal"),
    Allowed(("sight",), "tests/kafka/*", "a JSON name of `status --json` and `doctor --json`"),
    Allowed(("mend",), "tests/kafka/*", "a JSON name of `doctor --json`"),
    Allowed(("mend",), "tests/unit/streaming/doctor/*", "a JSON name of `doctor --json`"),
    Allowed(("portrait",), "tests/unit/streaming/web/*", "a JSON name of /api/clusters/NAME"),
    Allowed(("portrait",), "tests/status_schema.py", "a JSON name of /api/clusters/NAME"),
)

TEXTS = (".md", ".html", ".j2", ".txt", ".yaml", ".yml", ".toml", ".js", ".css", ".svg", ".sh", ".service", ".java")
FILES = sorted(
    path
    for path in ROOT.rglob("*")
    if path.is_file()
    and not {".git", ".venv", "site", "build", "dist", "__pycache__", "node_modules"}
    & set(path.relative_to(ROOT).parts)
    and not any(part.startswith(".") and part != ".ci" for part in path.relative_to(ROOT).parts)
    and (path.suffix in {".py", *TEXTS} or path.name in {"Makefile", "Dockerfile", "run"})
    and not path.is_relative_to(ROOT / "tests" / "data")
    and not (path.is_relative_to(ROOT / "docs") and path.suffix == ".svg")
)
_WORDS = re.compile(
    r"(?<![\w-])(" + "|".join(sorted(RETIRED, key=len, reverse=True)).replace(" ", r"\s+") + r")(?![\w-])", re.I
)
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def in_text(text: str) -> Iterator[str]:
    """The retired words of a text."""
    for found in _WORDS.finditer(text):
        yield re.sub(r"\s+", " ", found[0].lower())


def in_identifier(name: str) -> Iterator[str]:
    """The retired words that an identifier is made of."""
    parts = [part.lower() for part in _CAMEL.findall(name)]
    yield from (part for part in parts if part in RETIRED)


def in_python(source: str) -> Iterator[tuple[int, str]]:
    """Line and word of each retired word in names, comments, docstrings and other texts."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield from ((token.start[0], word) for word in in_identifier(token.string))
        elif token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from ((token.start[0], word) for word in in_text(token.string))


def in_file(path: Path) -> list[tuple[int, str]]:
    """Line and word of each retired word in a file, but for those that are allowed there."""
    source = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    if path.suffix == ".py":
        found = list(in_python(source))
    else:
        found = [(number, word) for number, line in enumerate(source.splitlines(), 1) for word in in_text(line)]
    allowed = {word for each in ALLOWED if fnmatch(name, each.files) for word in each.words}
    return [(line, word) for line, word in found if word not in allowed]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_retired_word_is_used(path: Path) -> None:
    found = in_file(path)
    report = "; ".join(f"line {line}: '{word}' (write: {RETIRED[word]})" for line, word in found[:20])
    assert not found, f"{report}. docs/glossary.md has the terms; ALLOWED lists exceptions with reasons"


def test_file_names_have_no_retired_word() -> None:
    names = {word: str(path.relative_to(ROOT)) for path in FILES for word in in_identifier(path.stem)}
    assert not {word: name for word, name in names.items() if word in RETIRED}


@pytest.mark.parametrize(
    "source",
    [
        "def told() -> None: ...",
        "class PortraitView: ...",
        "x = 1  # looked at anew",
        'x = "it heals by itself"',
        '"""For ever."""',
    ],
)
def test_a_retired_word_is_found(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source + "\n")
    assert in_file(path)


def test_every_exception_is_needed() -> None:
    for each in ALLOWED:
        assert any(fnmatch(str(path.relative_to(ROOT)), each.files) for path in (*FILES, ROOT / "LICENSE")), each
        assert each.reason
