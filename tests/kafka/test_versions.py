"""Old and new Kafkas, static and dynamic quorums: what docs/versions.md says of each is what is seen of it."""

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from connectors.decode_observation import events_of
from connectors.event import ObservationFailed, from_json
from connectors.kafka.client import Address, Client
from connectors.kafka.event_loop import Loop
from connectors.kafka.messages import FetchAnswer, fetch, fetched
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Resolver
from connectors.observation import Kind
from deploy.lab.lab import Lab
from rules.model.monitoring import ObservationSource, Reason
from streaming.cli import app
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, gathering
from tests.kafka.version_table import (
    CONTROLLER,
    DYNAMIC_KAFKAS,
    STATIC_KAFKAS,
    VOTERS_IN_THE_LOG,
    Seen,
    expected,
    measured,
    page_tables,
)

PAGE = Path(__file__).parents[2] / "docs" / "versions.md"
BEGIN, END = "<!-- the tables: tests/kafka/version_table.py -->\n\n", "\n<!-- the end of the tables -->\n"
OFTEN = {("3.6.2", True), ("3.9.2", True), ("4.1.2", True), ("4.3.1", False)}
"""What `make test` runs: a Kafka without DescribeQuorum v2, one without an upgrade, one with it, and today's."""
_FIRST_WITH_THE_FEATURE = "3.9.2"


def test_the_page_holds_the_tables() -> None:
    text = PAGE.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, foot = rest.partition(END)
    told = head + BEGIN + page_tables() + END + foot
    if os.environ.get("KRAFTWATCH_REWRITE_GOLDENS"):
        PAGE.write_text(told)
    assert text == told or os.environ.get("KRAFTWATCH_REWRITE_GOLDENS"), "KRAFTWATCH_REWRITE_GOLDENS=1 rewrites it"


def runs() -> list[Any]:
    every = [(kafka, True) for kafka in STATIC_KAFKAS] + [(kafka, False) for kafka in DYNAMIC_KAFKAS]
    return [
        pytest.param(
            kafka,
            static,
            id=f"{kafka}-{'static' if static else 'dynamic'}",
            marks=[] if (kafka, static) in OFTEN else pytest.mark.long,
        )
        for kafka, static in every
    ]


@pytest.mark.lab
@pytest.mark.kip("A030", "A094", "A097", "C022", "E004", "E012", "K005")
@pytest.mark.parametrize(("kafka", "static"), runs())
def test_every_cell_of_its_column(lab: Callable[..., Lab], tmp_path: Path, kafka: str, static: bool) -> None:
    quorum = lab(controllers=1, brokers=1, version=kafka, static=static)

    seen = looked_at(quorum, tmp_path, upgrade=static and STATIC_KAFKAS.index(kafka) >= 4)

    assert measured(seen, static=static) == expected(kafka, static=static)
    port = quorum.node(CONTROLLER).controller_port
    configured, advertised = f"CONTROLLER://localhost:{port}", f"CONTROLLER://127.0.0.1:{port}"
    assert seen.status["current_voters"][0]["endpoints"] in ([], [configured if static else advertised])
    if seen.upgraded and seen.upgraded[1]["committed_voters"]:
        voter = seen.upgraded[1]["committed_voters"]["voters"][0]
        assert (voter["id"], voter["endpoints"]) == (CONTROLLER, [advertised]), "the configuration counts no more"
    assert (seen.check["health"], seen.check["cannot_tell"]) == ("healthy", [])


def looked_at(quorum: Lab, folder: Path, *, upgrade: bool) -> Seen:
    """A gatherer's rows and one look of each verb; then the live upgrade, where it is to be tried."""
    with gathering(folder, cluster_of(quorum)) as gathered:

        def all_there() -> None:
            kinds = [row.kind for row in gathered.rows()]
            assert kinds.count(Kind.QUORUM) >= 3
            assert kinds.count(Kind.RECORDS) >= 3

        eventually(all_there, within_s=30)
        rows = gathered.rows()
    unseen = [from_json(row.payload) for row in rows if row.kind is Kind.UNSEEN]
    # A machine that stands still answers late what it does answer.
    late = [one for one in unseen if isinstance(one, ObservationFailed) and one.reason is Reason.TIMED_OUT]
    assert unseen == late, "nothing is asked that this Kafka does not answer"
    return Seen(
        apis=offered(quorum),
        redirected=redirected(quorum),
        status=said(quorum, "status"),
        replication=said(quorum, "replication"),
        check=checked(quorum),
        events=[event for row in rows if row.kind is Kind.RECORDS for event in events_of(row).events()],
        upgraded=upgraded(quorum) if upgrade else None,
    )


def upgraded(quorum: Lab) -> tuple[str, Mapping[str, Any]]:
    before = said(quorum, "status")["last_offset"]
    printed = quorum.upgrade_features("--feature", "kraft.version=1")

    def later() -> Mapping[str, Any]:
        status = said(quorum, "status")
        # The record of the upgrade is one of those behind.
        assert status["last_offset"] > before + 3
        return status

    status = eventually(later, within_s=30)
    check = checked(quorum)
    absent = {one["rule"] for one in check["not_applicable"]}
    assert absent.isdisjoint(VOTERS_IN_THE_LOG) is (status["kraft_version"] == 1), "judged from the upgrade on"
    return printed, status


def said(quorum: Lab, verb: str) -> dict[str, Any]:
    """What a verb says; told the controller alone, as a person on call would."""

    def whole() -> dict[str, Any]:
        ended = CliRunner().invoke(app, [verb, "--cluster", f"{NAME}={','.join(quorum.bootstrap)}", "--json"])
        shown: dict[str, Any] = json.loads(ended.stdout)
        # On a machine that stands still the time of one look may be up before all of it was seen.
        assert shown["missing"] == []
        return shown

    return eventually(whole, within_s=15)


def checked(quorum: Lab) -> dict[str, Any]:
    """What `check` says once nothing passing is in its way: a rule that looks at three polls, a broker just fenced."""

    def settled() -> dict[str, Any]:
        check = said(quorum, "check")
        assert (check["health"], check["cannot_tell"]) == ("healthy", []), "what cannot be seen alarms nobody"
        return check

    return eventually(settled, within_s=15)


def redirected(quorum: Lab) -> FetchAnswer:
    """What a controller answers to who asks in an epoch that is over."""
    request = fetch(
        cluster_id=None, leader_epoch=0, offset=0, last_epoch=0, high_watermark=None, max_wait_ms=0, max_bytes=1
    )
    host, _, port = quorum.bootstrap[0].rpartition(":")
    loop = Loop()
    client = Client(loop, cluster_of(quorum), resolver=Resolver(loop, resolve={}, hosts_file=None), budget=Budget())
    try:

        async def asked() -> FetchAnswer:
            return fetched(await client.ask(Address(host, int(port)), request, lane=ObservationSource.LOG))

        return loop.run(asked)
    finally:
        client.close()
        loop.close()


def offered(quorum: Lab) -> dict[int, tuple[int, int]]:
    """ApiVersions v0 of the controller: oldest and newest version by api key."""
    host, _, port = quorum.bootstrap[0].rpartition(":")
    with socket.create_connection((host, int(port)), 5) as connection, connection.makefile("rb") as answer:
        request = struct.pack(">hhih", 18, 0, 7, -1)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", answer.read(4))
        correlation, error, count = struct.unpack(">ihi", answer.read(10))
        listed = struct.iter_unpack(">hhh", answer.read(size - 10))
        assert (correlation, error) == (7, 0)
        found = {key: (oldest, newest) for key, oldest, newest in listed}
    assert len(found) == count
    return found
