"""The blob: it holds the whole state; a damaged one is refused."""

import re
import zlib
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from connectors.errors import UsageError
from rules.lifecycle import TrackedConditions
from rules.model.monitoring import Access, Reason, Vantage
from streaming.replay import state_codec, stored_topics
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.log import Data
from streaming.replay.machine import Machine
from streaming.replay.machine_state import MachineState
from streaming.replay.state_codec import MonitorParts
from streaming.replay.stored_topics import Topic
from tests.description.describe import describe
from tests.golden_file import REWRITE, assert_golden
from tests.scripts.log_script import (
    LogScript,
    again,
    apply,
    begun,
    failed,
    machine,
    poll,
    replica,
)
from tests.situation.commands import described
from tests.situation.situation import NOW
from tests.unit.streaming.replay.memory_pages import MemoryPages

DATA = Path(__file__).parents[3] / "data" / "states"
STORED = (
    *("stop-fetching 2 since 20s", "add-observer 2-new", "adding 4", "registers 9"),
    "registers 1 at c1:19093 since 1h incarnation new",
    *("starts 3 40m 20m", "elected 2 3 every 5m last 10m", "voter-set 30m 1 2 3@c3:9193", "upgrade 30 1,2"),
    *(
        "probe 1 name-not-found",
        "certificates 3=9d",
        "view 2 leader 1 epoch 6",
        "snapshot 4h",
        "fails view denied 1",
        *("probe 3 late", "append throttle orders", "append throttle 101", "witness 2 not 1=permission every 60s"),
    ),
    *(
        "fencings 102 2",
        "fence 101 since 10m",
        "unclean orders 0,3",
        "offline pay 0-2 dirs b",
        "append undecodable x since 10s",
    ),
    *("append zk-migration migration since 2h", "change orders 3 since 5m replicas 101,102,103 adding 103"),
    *("append undecodable x since 10s", "append unknown-record 501 0 since 9s", "damage-log 3", "outages 1 2"),
)
"""Something of most that is stored."""


def replayed() -> Machine:
    script, replay = begun()
    script.voters("1-a", "2-b")
    script.broker(101, fenced=False)
    script.begin()
    script.broker(102)
    script.change("orders", 0, isr=(101,), recovering=True)
    rows = [script.read(), script.row(poll(replica("1-a"), replica("2-b"))), script.row(failed(Reason.DENIED))]
    apply(replay, rows)
    return replay


def test_a_restored_machine_equals_the_stored_one() -> None:
    replay = replayed()
    back = again(replay.to_bytes())

    assert back.quorum() == replay.quorum()
    assert back.to_bytes() == replay.to_bytes()
    assert describe(back.quorum()) == describe(replay.quorum())
    assert (back.sequence, back.undecodable) == (replay.sequence, replay.undecodable)


def test_the_current_configuration_replaces_that_of_the_blob() -> None:
    access = Access(protocol="SASL_SSL", principal="User:kraftwatch")
    settings = ClusterSettings(name="renamed", bootstrap=("x:1",), vantage=Vantage.OUTSIDE, access=access)
    quorum = Machine(settings, stored=replayed().to_bytes()).quorum()

    assert (quorum.cluster, quorum.bootstrap, quorum.vantage) == ("renamed", ("x:1",), Vantage.OUTSIDE)
    assert (quorum.access, quorum.cluster_id) == (access, "cluster-id")


def test_the_configured_cluster_id_is_kept_where_the_state_knows_none() -> None:
    settings = ClusterSettings(name="test", cluster_id="configured")
    assert Machine(settings, stored=machine().to_bytes()).cluster_id == "configured"


def test_a_snapshot_that_was_half_read_is_continued_with_its_own_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_topics, "SMALL_PAGE", 0)
    script, pages = LogScript(), MemoryPages()
    stored = Machine(ClusterSettings(name="test"), pages=pages)
    script.leader(1)
    script.partition("orders", 0, 101, 102)
    apply(stored, [script.read()])
    script.topic("pay")
    script.partition("pay", 0, 101, 102)
    script.broker(101)
    script.broker(102)
    records, script.events = script.events, []
    first, second = script.snapshot(records, chunks=2)
    apply(stored, [first])
    blob = stored.to_bytes()
    parts = MonitorParts(tracked=TrackedConditions(), waiting=b"", machine=blob)
    needed = state_codec.stored_references("test", state_codec.monitor_to_bytes(parts))
    assert needed == pages.contents.keys(), "of the log and of the snapshot"

    back = Machine(ClusterSettings(name="test"), pages, stored=blob)
    apply(back, [second])
    assert [topic.name for topic in back.log.partitions.topics.values()] == ["pay"]
    assert [*back.log.partitions.topics["id-of-pay"].partitions] == [0]  # type: ignore[index]


def refusal(blob: bytes, cluster_id: str | None = None) -> str:
    with pytest.raises(UsageError) as refused:
        Machine(ClusterSettings(name="test", cluster_id=cluster_id), stored=blob)
    return str(refused.value)


def test_state_of_another_cluster_is_refused() -> None:
    assert refusal(replayed().to_bytes(), "elsewhere") == (
        "the checkpoint's state of cluster test is of cluster id cluster-id, not elsewhere: "
        "use another checkpoint folder"
    )


def test_every_truncated_blob_is_refused_in_one_sentence() -> None:
    blob = replayed().to_bytes()
    for torn in (*(blob[:end] for end in range(len(blob))), blob + b"\0"):
        assert refusal(torn).startswith("the checkpoint's state of cluster test is damaged (")


@pytest.mark.parametrize("inside", [b"no JSON", b'{"sequence": 7}', b'"\xff"'])
def test_a_complete_blob_with_other_content_is_refused(inside: bytes) -> None:
    hot = zlib.compress(inside)
    blob = len(hot).to_bytes(4, "big") + hot + bytes(8)
    assert refusal(blob).startswith("the checkpoint's state of cluster test is damaged (")


def test_what_this_version_has_stored_once_is_read() -> None:
    """A changed field needs another VERSION, or a default. `make goldens` writes the file of a new VERSION."""
    stored = DATA / f"state-{state_codec.VERSION}.bin"
    made = described(STORED)
    if REWRITE and not stored.exists():
        made.replay()
        stored.write_bytes(made.machine.to_bytes())

    back = Machine(made.settings, stored=stored.read_bytes())

    assert_golden(stored.with_suffix(".txt"), describe(back.quorum(), start_ms=NOW))


def stored_fields(*types: object) -> str:
    """Returns each field of these types, and of all that they hold, in a line; of an enumeration, its values."""
    lines: dict[str, str] = {}
    waiting = [*types]
    while waiting:
        held = waiting.pop()
        waiting += get_args(held)
        if not isinstance(held, type) or held.__qualname__ in lines:
            continue
        if issubclass(held, Enum):
            lines[held.__qualname__] = ", ".join(str(member.value) for member in held)
        elif names := [field.name for field in fields(held)] if is_dataclass(held) else [*getattr(held, "_fields", ())]:
            hints = get_type_hints(held)
            waiting += [hints[name] for name in names]
            lines[held.__qualname__] = "".join(f"\n  {name}: {_name(hints[name])}" for name in sorted(names))
    return "".join(f"{name}: {lines[name]}\n" for name in sorted(lines))


def _name(hint: object) -> str:
    text = re.sub(r"\b(?:\w+\.)+", "", hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint))
    return re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)


def test_a_changed_field_has_another_version() -> None:
    """Also one with a default: an older state would be read, and lack what the log said. `make goldens` writes the file
    of a new VERSION."""
    file = DATA / f"state-{state_codec.VERSION}.fields"
    now = stored_fields(MachineState, TrackedConditions, Topic, *get_args(Data))
    if REWRITE and not file.exists():
        file.write_text(now)

    assert file.read_text() == now, "raise VERSION in state_codec.py: this build would misread what it has stored"


def test_an_idle_quorum_is_a_small_blob() -> None:
    """Nine replicas polled for ten minutes, forty brokers, 1,000 partitions: a micro-batch rewrites these bytes."""
    script, replay = begun()
    for node in range(40):
        script.broker(100 + node, fenced=False)
    script.topic("orders")
    for number in range(1_000):
        script.partition("orders", number, 100 + number % 40, 100 + (number + 1) % 40, 100 + (number + 2) % 40)
    rows = [script.read()]
    rows += [script.row(poll(*(replica(f"{node}-dir{node}") for node in range(1, 10)))) for _ in range(600)]
    apply(replay, rows)

    assert len(replay.to_bytes()) < 12_000
