"""What a relay takes of the hosts of nodes: rows of its own clusters, while it writes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from connectors.settings.secret import Secret
from rules.model.witness import WitnessRow
from streaming.web.page_access import PageAccess
from streaming.web.server import Server
from streaming.web.witness_reports import witness_reports

PROD, DEV = "prodAAAAAAAAAAAAAAAAAA", "devAAAAAAAAAAAAAAAAAAA"
ROW = {"version": 1, "node": 101, "cluster_id": PROD, "at_ms": 1_800_000_000_000, "login": "", "peers": []}


@dataclass(kw_only=True)
class Relay:
    """What a relay does with rows."""

    written: set[str] = field(default_factory=lambda: {"prod"})
    takes: bool = True
    taken: list[tuple[str, WitnessRow]] = field(default_factory=list)
    port: int = 0

    def report(self, cluster: str, row: WitnessRow) -> bool:
        if self.takes:
            self.taken.append((cluster, row))
        return self.takes

    def sent(self, row: Any = ROW, *, name: str = "prod", token: str = "of a host") -> tuple[int, str]:
        url, headers = f"http://127.0.0.1:{self.port}/api/clusters/{name}/witness", {"Authorization": f"Bearer {token}"}
        answer = requests.post(url, json=row, headers=headers, timeout=60)
        return answer.status_code, answer.json()["status"]


@pytest.fixture
def relay() -> Iterator[Relay]:
    relay = Relay()
    reports = witness_reports({"prod": PROD, "dev": DEV}, lambda: relay.written, relay.report)
    access = PageAccess(token=Secret(text="of people"), witness_token=Secret(text="of a host"))
    with Server(("127.0.0.1", 0), [reports], access=access) as server:
        relay.port = server.port
        yield relay


def test_a_relay_takes_rows_of_what_it_writes(relay: Relay) -> None:
    assert [relay.sent(name=name) for name in ("prod", PROD)] == [(202, "accepted")] * 2
    assert [(cluster, row.node) for cluster, row in relay.taken] == [("prod", 101)] * 2
    relay.takes = False
    assert relay.sent() == (503, "the gatherer does not take it now: try again")


def test_a_relay_that_stands_by_names_the_other_one(relay: Relay) -> None:
    relay.written.clear()
    assert relay.sent() == (503, "another relay writes prod: report to that one too (--report twice)")
    assert not relay.taken


def test_what_is_no_row_of_its_clusters_is_refused(relay: Relay) -> None:
    assert relay.sent(name="other") == (404, "this relay has no cluster of that name")
    assert relay.sent(name="dev") == (409, f"cluster_id: the row is of cluster id {PROD}, not {DEV}")
    assert relay.sent({**ROW, "node": "1"}) == (400, "node: Input should be a valid integer")
    assert relay.sent({**ROW, "login": "x" * 20_000})[0] == 413
    assert relay.sent(token="wrong")[0] == 401
    assert not relay.taken
