"""Reloads of a running job with bad configurations: each is refused in one sentence, and the old one stays."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from streaming.config import Config, checked, load
from streaming.config.reload import ConfigFile
from streaming.job.start_up import open_sinks
from tests.hostile.section import SectionResult

GOOD: Final[dict[str, Any]] = {
    "clusters": [
        {"name": "prod", "bootstrap": ["c1.example:9093"], "thresholds": {"no-leader": {"hold": 10}}},
        {"name": "staging", "bootstrap": ["127.0.0.1:9093"], "security_protocol": "PLAINTEXT", "vantage": "inside"},
    ],
    "sinks": [
        "console",
        {"webhook": {"url": "https://hooks.example/one", "headers": {"X-Team": "kafka"}, "repeat": "4h"}},
        {"slack": {"webhook_url": "https://hooks.slack.com/services/T/B/x", "min_severity": "warning"}},
        {"apprise": {"url": "ntfy://ntfy.example/topic"}},
        {"pagerduty": {"routing_key": "0123456789abcdef0123456789abcdef", "clusters": ["prod*"]}},
        {"alertmanager": {"url": "https://alerts.example", "rules": ["*", "!version-drift"]}},
    ],
    "heartbeat": {"url": "https://beat.example/ping", "every": "60s"},
    "otlp": {"url": "https://otel.example/v1/metrics", "attributes": {"service.name": "kraftwatch"}, "every": "60s"},
    "page_url": "https://page.example",
    "docs_url": "https://docs.example",
    "maintenance": [
        {
            "days": ["sat"],
            "from": "22:00",
            "for": "4h",
            "timezone": "Europe/Berlin",
            "clusters": ["prod"],
            "comment": "weekly",
        }
    ],
    "rules": {"version-drift": {"enabled": False}},
}
BAD: Final[Sequence[Any]] = (
    *(
        None,
        True,
        -1,
        0,
        2**63,
        1e308,
        float("nan"),
        "",
        " ",
        "\x00",
        "a\nb",
        "[",
        "]",
        "%",
        "%zz",
        "{",
        "${",
        "${A",
        "*",
    ),
    *(
        "http://[",
        "https://[::1",
        "https://a:b",
        "https://a:99999",
        "https://",
        "://",
        "a://b c",
        "windows://x]",
        "//x",
    ),
    *("slack://", "postgresql://[", "ntfy://]", "https://exa\u202emple", "\ud800", "e" * 70_000, "a." * 5_000, "1d1d"),
    *(
        [],
        [None],
        {},
        {"a": 1},
        {"\x00": "\x00"},
        [[[]]],
        {"hold": "soon"},
        "2026-13-45T99:99:99Z",
        ".inf",
        "!!python/x",
    ),
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of each part of a configuration."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from _paths(part, (*path, key))


def _changed(rng: Random) -> Any:
    """Returns the good configuration with one or two bad values, or with a bad key."""
    data: Any = deepcopy(GOOD)
    for _ in range(rng.choice((1, 1, 2))):
        *parents, last = rng.choice([*_paths(data)])
        place: Any = data
        for each in parents:
            place = place[each]
        value = rng.choice(BAD)
        if isinstance(place, dict) and rng.random() < 0.2:
            place[value if isinstance(value, str) else repr(value)] = rng.choice(BAD)
        else:
            place[last] = value
    return data


def _text(data: Any, rng: Random) -> bytes:
    """Returns a file: YAML, sometimes cut off or with a byte that does not belong there."""
    content = yaml.safe_dump(data, allow_unicode=False).encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        at = rng.randrange(len(content))
        content = rng.choice([content[:at], content[:at] + bytes([rng.randrange(256)]) + content[at:]])
    return content


def _refusal(file: ConfigFile) -> str:
    return file.error or ""


def reloads(seed: int, count: int, folder: Path) -> SectionResult:
    """Reloads so many files. A file may be valid after all: then it comes into effect, and the next one is refused."""
    result = SectionResult(name="reloads", tried=count)
    path, rng, accepted, sentences = folder / "kraftwatch.yaml", Random(seed), 0, set[str]()
    in_effect = checked(GOOD, "GOOD")
    opened = open_sinks(in_effect, [])
    path.write_text(yaml.safe_dump(GOOD))
    with ConfigFile(path, lambda: load(path)) as file:

        def change(config: Config) -> Sequence[str]:
            nonlocal opened, accepted
            opened = open_sinks(config, opened)
            accepted += 1
            return []

        for number in range(count):
            content = _text(_changed(rng), rng)
            path.write_bytes(content)
            before, file.error = accepted, None
            file.set()
            try:
                file.poll(change)
            except Exception as error:  # noqa: BLE001 - it would have ended the job
                result.problems.append(f"reload {number}: {type(error).__name__}: {error}; the file: {content[:300]!r}")
                continue
            if accepted == before:
                sentence = _refusal(file)
                sentences.add(sentence)
                if not sentence or "\n" in sentence or len(sentence) > 2_000:
                    result.problems.append(f"reload {number}: not one sentence: {sentence[:300]!r}")
    result.figure = f"{count - accepted:,} refused with {len(sentences):,} sentences, {accepted:,} were valid after all"
    return result
