"""A lost majority, by someone who only reads the plan: every command as printed, every sentence done."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from threading import Event
from time import sleep

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from typer.testing import Result

from deploy.lab.jars import KAFKA_VERSION
from rules.model.quorum import Quorum
from streaming.query.from_log_dir import replay_log_dir
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.in_background import in_background
from tests.kafka.conftest import MakeLab
from tests.kafka.dead_quorum import AUTHORIZER, fill_with_metadata
from tests.kafka.metadata_image import kafka_records
from tests.kafka.monitored_cluster import monitor_cluster
from tests.kafka.plan_follower import PlanFollower, log_dirs, steps_in_text
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
KINDS = ("TopicRecord", "ConfigRecord", "AccessControlEntryRecord", "UserScramCredentialRecord", "ClientQuotaRecord")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("version", "voters", "left", "static"),
    [
        (KAFKA_VERSION, 3, 1, False),
        ("4.1.2", 3, 1, False),
        ("3.9.2", 3, 1, False),
        (KAFKA_VERSION, 4, 2, False),
        (KAFKA_VERSION, 5, 2, False),
        (KAFKA_VERSION, 3, 1, True),
        ("4.1.2", 3, 1, True),
        ("3.9.2", 3, 1, True),
    ],
)
def test_reader_of_the_printed_plan_gets_a_quorum_of_all_voters_again(
    lab: MakeLab, tmp_path: Path, version: str, voters: int, left: int, static: bool
) -> None:
    quorum = lab(controllers=voters, brokers=2, version=version, static=static, properties=AUTHORIZER)
    fill_with_metadata(quorum)
    quorum.await_state(lambda state: all(one.caught_up for one in state.voters), what="all voters in sync")
    lost = lose(quorum, voters - left)
    survivors = [node for node in quorum.controllers if node not in lost]
    before = settings_of(quorum, survivors[0])
    given = [*survivors, *quorum.brokers]

    refused = plan(quorum, given, lost)
    safe = voters == 4
    accepted = refused if safe else plan(quorum, given, lost, "--accept-loss")
    assert (refused.exit_code, accepted.exit_code) == (0 if safe else 2, 0), accepted.output
    ran = PlanFollower(quorum, tmp_path).follow(steps_in_text(accepted.stdout))

    assert sum("rescue apply" in command for command in ran) == left
    quorum.create_topic("after", replication=len(quorum.brokers))
    quorum.produce("orders", 20)
    assert [one for one in settings_of(quorum, survivors[0]) if "after" not in one] == before
    quorum.kill(survivors[0])
    quorum.await_leader(*(node for node in quorum.controllers if node != survivors[0]))


@pytest.mark.timeout(400)
def test_lost_voters_that_come_back_with_their_old_disks_follow_the_new_quorum(lab: MakeLab, tmp_path: Path) -> None:
    """They had records that the survivor lacks, and are two of three voters by their own logs."""
    quorum = lab(controllers=3, brokers=1, properties=AUTHORIZER)
    survivor = quorum.followers[0]
    quorum.kill(survivor)
    quorum.create_topic("late")
    disks = {node: tmp_path / f"disk-{node}" for node in quorum.controllers}
    lost = lose(quorum, 2, keep=survivor, copies=disks)
    rescue(quorum, tmp_path, survivor, lost)
    quorum.start(survivor)
    state = quorum.await_leader(survivor)
    for node in lost:
        shutil.rmtree(quorum.node(node).data, ignore_errors=True)
        shutil.copytree(disks[node], quorum.node(node).data)

    quorum.start(*lost)

    after = quorum.await_state(
        lambda state: {*lost} <= {one.id for one in state.observers if one.caught_up}, what="both follow"
    )
    assert (after.leader_id, after.leader_epoch, [*after.voter_ids]) == (survivor, state.leader_epoch, [survivor])
    for node in lost:
        assert not any("late" in record for record in kafka_records(quorum.node(node).metadata_log))


@pytest.mark.timeout(400)
def test_the_voter_that_is_left_moves(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=2, properties=AUTHORIZER)
    fill_with_metadata(quorum)
    survivor = quorum.followers[0]
    lost = lose(quorum, 2, keep=survivor)
    quorum.kill(*quorum.brokers)
    quorum.move_endpoint(survivor)
    node = quorum.node(survivor)
    moved = ("--initial-controllers", f"{node.id}@{node.endpoint}:{node.directory_id}")

    accepted = plan(quorum, [survivor, *quorum.brokers], lost, "--accept-loss", *moved)
    PlanFollower(quorum, tmp_path).follow(steps_in_text(accepted.stdout))

    quorum.create_topic("after", replication=len(quorum.brokers))
    quorum.produce("orders", 20)


@pytest.mark.timeout(400)
def test_the_log_of_a_broker_that_goes_further_is_continued(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=1, properties=AUTHORIZER)
    survivor = quorum.followers[0]
    quorum.kill(survivor)
    quorum.create_topic("late")
    lost = lose(quorum, 2, keep=survivor)
    (broker,) = quorum.brokers
    quorum.kill(broker)

    without = plan(quorum, [survivor, broker], lost)
    accepted = plan(quorum, [survivor, broker], lost, "--accept-loss", "--log-of", str(broker))
    PlanFollower(quorum, tmp_path).follow(steps_in_text(accepted.stdout))

    output = " ".join(without.stdout.split())
    assert "1 TOPIC_RECORD" in output
    assert f"which would be lost. --log-of {broker} continues its log instead" in output
    assert any("late" in record for record in kafka_records(quorum.node(survivor).metadata_log))


@pytest.mark.timeout(400)
def test_the_monitor_names_the_way_and_says_what_was_done(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=1, properties=AUTHORIZER)
    with monitor_cluster(quorum, tmp_path / "monitor") as monitor:
        monitor.start_scenario({"no-leader.hold": 1, "forced-reconfiguration.keep_firing_for": 1})
        survivor = quorum.followers[0]
        lost = lose(quorum, 2, keep=survivor)
        leaderless = monitor.wait_for("no-leader", within_s=60)
        rescue(quorum, tmp_path, survivor, lost)
        quorum.start(survivor)
        quorum.await_leader(survivor)
        fired = monitor.wait_for("forced-reconfiguration", within_s=60)
        for node in lost:
            quorum.node(node).data.mkdir()
            quorum.wipe_disk(node)
        quorum.start(*lost)
        for node in lost:
            quorum.add_controller(node)
        resolved = monitor.wait_for("forced-reconfiguration", "resolved", within_s=60)

    assert any("`kraftwatch rescue plan --lost`" in step for step in leaderless.remedy)
    assert fired.summary.startswith("kraftwatch rescue made a quorum of 1 of 3 voters. Lost: ")
    assert f"Keep controllers {lost[0]} and {lost[1]} off until" in fired.remedy[0]
    assert resolved.summary.startswith("No voter set was forced recently.")
    assert not [each for each in monitor.alerts if each.rule == "epoch-churn"], monitor.alert_lines()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("static", [False, True])
def test_the_monitor_says_that_the_rescue_has_lost_what_it_had_read(lab: MakeLab, tmp_path: Path, static: bool) -> None:
    quorum = lab(controllers=3, brokers=1, static=static, properties=AUTHORIZER)
    with monitor_cluster(quorum, tmp_path / "monitor") as monitor:
        monitor.start_scenario({})
        survivor = quorum.followers[0]
        quorum.kill(survivor)
        quorum.create_topic("late")
        end = quorum.await_leader().high_watermark
        monitor.wait_for_quorum(lambda seen: (seen.last_offset or 0) >= end - 1)
        lost = lose(quorum, 2, keep=survivor)
        steps = steps_in_text(plan(quorum, [survivor, *quorum.brokers], lost, "--accept-loss").stdout)
        started = steps.index(f"# Start controller {survivor}, and wait for a leader")
        PlanFollower(quorum, tmp_path).follow(steps[: started + 1])
        monitor.wait_for("committed-metadata-lost", within_s=60)

        def says_so(_: Quorum) -> bool:
            (lost,) = [one for one in monitor.monitor.firing(None, ()).alerts if one.rule == "committed-metadata-lost"]
            return any("`kraftwatch rescue apply --lost`, which began this quorum" in step for step in lost.remedy)

        monitor.wait_for_quorum(says_so)


def test_a_voter_that_answers_is_not_lost(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0)
    survivor, other = quorum.followers
    quorum.kill(survivor)
    lost = [node for node in quorum.controllers if node != survivor]

    answers = plan(quorum, [survivor], lost, "--accept-loss")
    running = kraftwatch("rescue", "undo", *log_dirs(quorum, other))

    assert f"--lost: controller {lost[0]} answers at {quorum.node(lost[0]).endpoint}: stop it" in str(answers.exception)
    assert "is locked: a Kafka process uses it" in str(running.exception)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("voters", [3, 4, 5])
def test_what_a_plan_says_is_held_against_what_was_acknowledged(
    lab: MakeLab, voters: int, record_property: Callable[[str, object], None]
) -> None:
    """Killed ten times at random while topics are created; then every choice of lost disks that leaves no majority."""
    quorum = lab(controllers=voters, brokers=1)
    random, acknowledged = Random(voters), set[str]()
    found: Counter[tuple[bool, bool]] = Counter()
    with in_background(partial(create_topics, quorum, acknowledged)):
        for _ in range(10):
            held_back = random.sample(quorum.controllers, random.randint(0, (voters - 1) // 2))
            quorum.pause(*held_back)
            sleep(random.uniform(0.5, 2.5))
            order = random.sample(quorum.controllers, voters)
            for node in order:
                quorum.kill(node)
                sleep(random.choice([0.0, 0.0, 0.05, 0.3]))
            known = {*acknowledged}
            names = {node: topics_on(quorum.node(node).metadata_log) for node in quorum.controllers}
            assert known <= set().union(*names.values())
            for count in range(voters - voters // 2, voters):
                for lost in combinations(quorum.controllers, count):
                    left = [node for node in quorum.controllers if node not in lost]
                    made = json.loads(plan(quorum, left, lost, "--no-probe", "--accept-loss", "--json").stdout)["lost"]
                    missing = known - names[int(made["log_of"].partition("-")[0])]
                    assert not (made["data_safe"] and missing), (lost, sorted(missing))
                    found[made["data_safe"], bool(missing)] += 1
            quorum.start(*quorum.controllers)
            quorum.await_leader()
            size = len(acknowledged)
            eventually(lambda: len(acknowledged) > size + 2, within_s=60)  # noqa: B023 - read at once
    record_property("choices", f"{len(acknowledged)} topics; (data-safe, something missing): {dict(found)}")
    assert found[False, True], "some loss would be real"
    assert (found[True, False] > 0) == (voters % 2 == 0)


def create_topics(quorum: Lab, acknowledged: set[str], ended: Event) -> None:
    """Creates one topic after the other, and keeps the names of those that were acknowledged."""
    client, number = quorum.admin, 0
    while not ended.is_set():
        number += 1
        name = f"trial-{number:06d}-"
        with suppress(KafkaException):
            client.create_topics([NewTopic(name, 1, 1)], request_timeout=10)[name].result(12)
            acknowledged.add(name)


def topics_on(partition: Path) -> set[str]:
    """The names of the trial's topics in a metadata log."""
    content = b"".join(path.read_bytes() for path in partition.iterdir() if path.suffix in (".log", ".checkpoint"))
    return {name.decode() for name in re.findall(rb"trial-\d{6}-", content)}


def lose(quorum: Lab, count: int, *, keep: int | None = None, copies: dict[int, Path] | None = None) -> list[int]:
    """Kills all controllers and destroys the disks of some: of the leader and others."""
    leader = quorum.leader
    others = [node for node in quorum.controllers if node not in (leader, keep)]
    lost = sorted([leader, *others][:count])
    quorum.kill(*(node for node in quorum.controllers if quorum.node(node).running))
    for node in lost:
        if copies is not None:
            shutil.copytree(quorum.node(node).data, copies[node])
        shutil.rmtree(quorum.node(node).data)
    return lost


def plan(quorum: Lab, given: Sequence[int], lost: Sequence[int], *options: str) -> Result:
    named = ",".join(map(str, lost))
    return kraftwatch("rescue", "plan", *log_dirs(quorum, *given), "--lost", named, *options)


def rescue(quorum: Lab, folder: Path, survivor: int, lost: Sequence[int]) -> None:
    file = folder / "rescue-plan.json"
    file.write_text(plan(quorum, [survivor], lost, "--accept-loss", "--json").stdout)
    assert json.loads(file.read_text())["refused"] is None
    named = ",".join(map(str, lost))
    applied = kraftwatch("rescue", "apply", *log_dirs(quorum, survivor), "--lost", named, "--plan", str(file), "--yes")
    assert applied.exit_code == 0, applied.exception
    assert replay_log_dir(quorum.node(survivor).data).epoch == 1_000_000


def settings_of(quorum: Lab, node: int) -> list[str]:
    """What people have set, by Kafka's image of a node."""
    records = [record.removeprefix("ApiMessageAndVersion(") for record in kafka_records(quorum.node(node).metadata_log)]
    return sorted(record for record in records if record.startswith(KINDS))
