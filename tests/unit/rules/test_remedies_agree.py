"""The remedies of alerts that fire at once can all be followed: none destroys what another one saves."""

import pytest

from rules.claims.claim import NOBODY, Question, claim
from rules.claims.statement import Statement, claims_of
from rules.finding import Finding, Severity
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.step import Act, asks_leader, does, forbids, may_restart, restart_if_safe, starts, waits
from tests.remedy_conflicts import conflicts
from tests.situation.case import evaluated
from tests.situation.commands import situation

FENCED = "fence 101"
ONLY_COPY = ("unclean orders 0,3",)
"""Broker 101 was the only in-sync replica of orders-0 and orders-3, failed, and 102 was elected uncleanly."""
LOST = (FENCED, *ONLY_COPY)
COMBINED = ("brokers 1,101,102", "fence 1 since 50s", "unclean orders 0 replicas 1,102")
"""Voter 1 is a broker as well, and was the only in-sync replica of orders-0."""
DOWN = "stop-fetching 1"
ONLY_COPIES: dict[str, tuple[str, ...]] = {
    "fenced broker after an unclean election": LOST,
    "broker left by a controlled shutdown": ("left 101", "unclean orders 0"),
    "isr violates KIP-704": (FENCED, "unclean orders 0", "append change orders-0 isr 102,101 since 30s"),
    "the only in-sync copy has outdated metadata": (*LOST, "stop-fetching 102 since 60s"),
    "mixed versions": (*LOST, "upgrade 30 1,2,3"),
    "the replica is a controller too": (*COMBINED, DOWN),
    "the replica is a controller without a vote": (
        "brokers 9,101,102",
        "registers 9",
        "fence 9 since 50s",
        "unclean orders 0 replicas 9,102",
    ),
    "no leader, and a voter holds the only copy": (*COMBINED, "probe 1,2 refused", "leaderless 3"),
    "a voter with the only copy while names are gone": (*COMBINED, "probe 2 name-not-found"),
    "a voter with the only copy while a change is pending": (*COMBINED, DOWN, "adding 4"),
    "a voter with the only copy reports no leader": (*COMBINED, "view 1 none"),
    "a voter with the only copy while nothing is committed": (*COMBINED, DOWN, "stalled 31s"),
    "the only copy is on an old version": ("upgrade 25 101", *LOST, FENCED),
}
"""What is to be started has the only copy of a partition."""
_ONE_DIRECTORY_LOST = (
    "broker 101 dirs x",
    "broker 102 dirs a,b",
    "partitions orders 0,1 replicas 102,101 dirs a,x",
    "partitions pay 0,1 replicas 102,101 dirs b,x",
    "fence 101 since 10m",
    "change orders 0,1 since 10m isr 102 leader 102",
    "change pay 0,1 since 10m isr 102 leader 102",
    "fence 102 since 5m",
    "change orders 0,1 since 5m isr none elr 102 last-known-elr 102 leader none",
    "change pay 0,1 since 5m isr none elr 102 last-known-elr 102 leader none",
    "change orders 0,1 since 60s elr none",
    "change pay 0,1 since 60s elr none",
    "broker 102 since 60s dirs a,c incarnation again",
    "change pay 0 since 60s dirs a,x",
    "change pay 1 since 60s dirs c,x",
    "change orders 0,1 since 50s isr 102 leader 102 recovering yes last-known-elr none",
    "change pay 0,1 since 50s isr 102 leader 102 recovering yes last-known-elr none",
)
_THEN_STOPPED = (
    "left 102 since 20s",
    "change orders 0,1 since 20s isr none elr 102 leader none",
    "change pay 0,1 since 20s isr none elr 102 leader none",
)
SITUATIONS: dict[str, tuple[str, ...]] = {
    "one of two directories is lost": _ONE_DIRECTORY_LOST,
    "and its broker is stopped": (*_ONE_DIRECTORY_LOST, *_THEN_STOPPED),
    "and the other replica's broker is started": (
        *_ONE_DIRECTORY_LOST,
        *_THEN_STOPPED,
        "broker 101 since 10s dirs x incarnation again",
    ),
    **ONLY_COPIES,
    "another replica has joined": (FENCED, "unclean orders 0,3 recovered"),
    "the leader failed too": (
        FENCED,
        "unclean orders 0",
        "fence 102 since 10s",
        "append change orders-0 leader none since 10s",
    ),
    "metadata lost while a voter is down": (FENCED, "unclean orders 0", "stop-fetching 2", "lose-metadata 9900"),
    "metadata lost and old names": ("probe 1,2 name-not-found", "lose-metadata 9900"),
    "an epoch with two leaders while a voter is down": ("stop-fetching 2", "append leader 2 epoch 7 since 20s"),
    "forced voters and a former voter that is registered": ("voter-set 60s 3", "stop-fetching 1,2"),
    "old names while a voter is down": ("stop-fetching 2", "probe 1 name-not-found"),
    "a moved voter while a voter is down": ("stop-fetching 2", "registers 1 at c1:19093 since 60s"),
    "a pending change and a replaced disk": ("stop-fetching 2", "add-observer 2-new", "adding 4"),
    "no leader and old names": ("probe 1,2,3 name-not-found", "leaderless 1,2,3"),
    "no leader and a registration elsewhere": ("probe 2 refused", "registers 1 at c1:19093 since 60s", "leaderless 3"),
    "no leader after a forced change": ("voters 5", "voter-set 60s 1 2 3", "probe 1,2 refused", "leaderless 3"),
    "a transaction is open on the only copy": (
        "brokers 3,101",
        "fence 101 since 3m",
        "unclean orders 0 replicas 101,3 leader 3 since 2m",
        "append transaction begin since 61s",
    ),
    "elections while a voter is down": ("stop-fetching 2 since 6m", "elected 1 2 1 2 3"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_remedies_of_all_findings_agree(name: str) -> None:
    assert conflicts(evaluated(situation(*SITUATIONS[name])).findings) == []


@pytest.mark.parametrize("name", ONLY_COPIES)
def test_first_step_of_what_starts_a_node_is_to_copy_the_only_copy(name: str) -> None:
    quorum: Quorum = situation(*ONLY_COPIES[name])
    failed = {node for node, broker in quorum.brokers.items() if broker.fenced}
    starting = [one for one in evaluated(quorum).findings if failed & {*one.starts}]

    assert starting
    for first in (one.remedy[0] for one in starting):
        assert first.startswith("# Do not start or restart broker ")
        assert "before you have copied orders-0" in first
        assert "log.dirs" in first


N1, N2, N101, N102 = map(NodeId, (1, 2, 101, 102))
KEEP_102 = forbids("# Do not stop broker 102", Act.STOP, (N102,), (Act.JOIN, (N102,)))
STOP_102_FIRST = forbids("# Do not start broker 101 before 102 is stopped", Act.START, (N101,), (Act.STOP, (N102,)))
KEEP_OFF = forbids("# Keep controller 1 off until it is formatted", Act.START, (N1,), (Act.FORMAT, (N1,)))
KEEP_RUNNING = forbids("# Do not restart controller 1 before 2 fetches", Act.STOP, (N1,), (Act.FETCH, (N2,)))
NO_CHANGE = forbids("# Start no other change", Act.CHANGE_VOTER, (None,), (Act.SETTLE, (None,)))
NO_COPY = forbids("# Start nothing before the logs are copied", Act.START, (None,), (Act.COPY, (None,)))
OUTAGE = Statement("# Nobody leads", claim(Question.LEADER, NOBODY))
RESTART_1, START_1 = may_restart("# Restart controller 1", N1), starts("# Start controller 1", N1)
ADD = asks_leader("kafka-metadata-quorum.sh add-controller", N2)


@pytest.mark.parametrize(
    ("remedies", "found"),
    [
        # What two alerts said of a broker that lost one of two directories.
        (((KEEP_102,), (does("# Stop broker 102", (Act.STOP, (N102,))),)), "# Stop broker 102, and "),
        (((STOP_102_FIRST,), (starts("# Start broker 101 again", N101),)), "# Start broker 101 again, and "),
        (((KEEP_102,), (STOP_102_FIRST,)), "waits for itself"),
        (((STOP_102_FIRST,), (STOP_102_FIRST, starts("# Start broker 101 again", N101))), ""),
        (((STOP_102_FIRST, does("# Stop 102", (Act.STOP, (N102,))), starts("# Start 101", N101)),), ""),
        # A controller that one starts, and another one keeps off.
        (((KEEP_OFF,), (START_1,)), "# Start controller 1, and "),
        (((KEEP_OFF,), (RESTART_1,)), "# Restart controller 1, and "),
        (((KEEP_OFF,), (KEEP_OFF, START_1)), ""),
        (((KEEP_OFF,), (does("# Format it, then start it", (Act.FORMAT, (N1,)), (Act.START, (N1,))),)), ""),
        (((NO_COPY,), (START_1,)), "# Start controller 1, and "),
        (((NO_COPY,), (START_1, NO_COPY)), "# Start controller 1, and "),
        (((NO_COPY,), (NO_COPY, START_1)), ""),
        # The majority is lost, or the only copy, by a restart.
        (((KEEP_RUNNING,), (RESTART_1,)), "# Restart controller 1, and "),
        (((KEEP_RUNNING,), (forbids("# Never stop 1", Act.STOP, (N1,)), RESTART_1)), "# Restart controller 1, and "),
        (((KEEP_RUNNING,), (KEEP_RUNNING, RESTART_1)), ""),
        (((KEEP_RUNNING,), (restart_if_safe("# Restart 1 if safe-to-restart permits it", N1),)), ""),
        (((KEEP_RUNNING,), (START_1,)), ""),
        (((KEEP_RUNNING,), (forbids("# Keep 2 off", Act.START, (N2,), (Act.STOP, (N1,))),)), "waits for itself"),
        # Two changes of the voters at once.
        (((NO_CHANGE,), (ADD,)), "add-controller, and "),
        (((NO_CHANGE,), (ADD, waits("# Wait for the pending change", Act.SETTLE))), "add-controller, and "),
        (((NO_CHANGE,), (waits("# Wait for the pending change", Act.SETTLE), ADD)), ""),
        (((NO_CHANGE,), (asks_leader("kafka-metadata-quorum.sh describe"),)), ""),
        # A command that needs a leader while there is none.
        (((OUTAGE,), (ADD,)), "add-controller, and an outage"),
        (((OUTAGE, ADD),), "add-controller, and an outage"),
        (((OUTAGE,), (waits("# Wait for the pending change", Act.SETTLE), ADD)), "add-controller, and an outage"),
        (((OUTAGE,), (waits("# Wait for a leader", Act.LEAD), ADD)), ""),
        (((ADD,),), ""),
    ],
)
def test_steps_are_compared_by_their_values(remedies: tuple[tuple[str, ...], ...], found: str) -> None:
    findings = [
        Finding(
            rule=f"rule-{number}",
            subject=Subject("broker", number),
            severity=Severity.WARNING,
            summary="",
            evidence={},
            remedy=remedy,
            claims=claims_of(remedy),
        )
        for number, remedy in enumerate(remedies)
    ]
    sentences = conflicts(findings)
    assert any(found in one for one in sentences) if found else sentences == []
