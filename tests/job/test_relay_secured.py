"""A relay and a job on a topic with TLS, a login and ACLs: the least permissions, and no secret in any file."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_state import files_in
from tests.job.relay_process import RelayProcess
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]
LAB = {"controllers": 1, "brokers": 0}
TOPIC = "observations"


@pytest.fixture(scope="module")
def topic_lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "topic-lab", controllers=0, combined=1, brokers=0, users=["writer", "reader", "stranger"]) as lab:
        writing = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
        lab.allow("writer", *writing, topics=TOPIC)
        lab.allow("stranger", *writing, topics=TOPIC)
        lab.allow_transactions("writer", ids=f"kraftwatch-{TOPIC}/")
        lab.allow("reader", AclOperation.READ, AclOperation.DESCRIBE, topics=TOPIC)
        yield lab


def login(lab: Lab, user: str, **password: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(lab.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        **(password or {"sasl_plain_password": lab.security.passwords[user]}),
    }


def test_least_permissions_are_enough_and_no_file_holds_a_password(
    lab: Lab, topic_lab: Lab, folder: Path, tmp_path: Path
) -> None:
    relay = RelayProcess(folder / "relay", topic_lab, topic=TOPIC, clusters=[section("test", lab)])
    (tmp_path / "password").write_text(topic_lab.security.passwords["writer"])
    relay.start(**login(topic_lab, "writer", sasl_plain_password={"file": str(tmp_path / "password")}))
    relay.wait_until_acknowledged()
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
    job.write_config(
        clusters=[section("test", lab)],
        source="kafka",
        relay={**relay.section, **login(topic_lab, "reader")},
        thresholds={"quorum-shape": {"hold": 1}},
    )
    try:
        with job:
            job.wait_for("quorum-shape")
    finally:
        relay.stop()

    configured = {job.file, folder / "relay" / "relay.yaml"}
    for name, content in chain(files_in(folder / "relay"), files_in(folder / "job")):
        if name not in configured:
            for user in ("writer", "reader"):
                assert topic_lab.security.passwords[user].encode() not in content, name


def test_a_missing_permission_on_transactional_ids_is_one_sentence_with_the_fix(
    lab: Lab, topic_lab: Lab, tmp_path: Path
) -> None:
    relay = RelayProcess(tmp_path, topic_lab, topic=TOPIC, clusters=[section("test", lab)])
    relay.start(**login(topic_lab, "stranger"))
    sentence = f"the login needs WRITE and DESCRIBE on those that begin with kraftwatch-{TOPIC}/"
    try:
        eventually(lambda: sentence in relay.log, within_s=60)
        topic_lab.allow_transactions("stranger", ids=f"kraftwatch-{TOPIC}/")
        relay.wait_until_acknowledged()
    finally:
        relay.stop()
    assert relay.log.count(sentence) == 1


def test_wrong_password_is_one_sentence_without_it(lab: Lab, topic_lab: Lab, tmp_path: Path) -> None:
    relay = RelayProcess(tmp_path, topic_lab, topic=TOPIC, clusters=[section("test", lab)])
    relay.start(**login(topic_lab, "writer", sasl_plain_password="wrong-secret"))
    try:
        eventually(lambda: "authentication or TLS failed" in relay.log, within_s=60)
    finally:
        relay.stop()
    assert "wrong-secret" not in relay.log
    assert "the relay keeps them and retries" in relay.log
