"""Messages of a relay's topic become their rows; whatever no relay of the cluster writes is refused.

The login of a topic is in the words of Kafka's Java client.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import SecretStr

from connectors.errors import UsageError
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.relay.relay_message import Baseline, RefusedPart, RelayEpoch, RelayMessage
from connectors.settings import TopicSection
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming.pipeline.kafka_source import (
    REDACTION,
    MessageReader,
    RelayedCluster,
    connection_options,
    kafka_settings,
)
from streaming.pipeline.output_rows import observations
from streaming.pipeline.schema import REFUSED
from streaming.pipeline.step import Step
from tests.unit.connectors.kafka.certificates import authority

FAILED = FailedObservation(source=ObservationSource.QUORUM, endpoint="c1:9093", reason=Reason.NO_LEADER, detail="none")
NOW_MS = 1_800_000_000_000


def message(
    sequence: int,
    *,
    cluster: str = "prod",
    baseline: int = 10,
    epoch: int | None = None,
    at_ms: int | None = None,
    cluster_id: str = "id",
) -> RelayMessage:
    row = Observation(
        cluster=cluster,
        kind=ObservationKind.FAILED,
        observed_at_ms=NOW_MS + sequence if at_ms is None else at_ms,
        payload=to_json(FAILED),
        sequence=sequence,
    )
    return RelayMessage(
        observation=row,
        cluster_id=cluster_id,
        baseline=Baseline(sequence=baseline, at_ms=NOW_MS),
        epoch=RelayEpoch(sequence=baseline if epoch is None else epoch, relay="host-1"),
    )


def kafka_batch(
    *messages: RelayMessage | bytes,
    partition: int = 0,
    topic: str = "observations",
    at_ms: int = NOW_MS,
    by_broker: bool = True,
) -> pa.RecordBatch:
    """Returns the columns of Spark's Kafka source; bytes are a value that no relay wrote."""
    rows: list[dict[str, Any]] = [
        {
            "key": one.key if isinstance(one, RelayMessage) else b"prod",
            "value": one.value() if isinstance(one, RelayMessage) else one,
            "headers": [{"key": key, "value": value} for key, value in one.headers]
            if isinstance(one, RelayMessage)
            else None,
            "topic": topic,
            "partition": partition,
            "offset": at,
            "at_ms": at_ms,
            "time_type": int(by_broker),
        }
        for at, one in enumerate(messages)
    ]
    return pa.RecordBatch.from_pylist(rows)


def read(
    *batches: pa.RecordBatch, now_ms: int = NOW_MS, **baselines: int
) -> tuple[Mapping[str, Sequence[Observation]], list[dict[str, Any]]]:
    """Returns the rows by cluster, and what the quarantine gets."""
    clusters = {
        name: RelayedCluster(topic="observations", cluster_id="id", baseline=baseline)
        for name, baseline in (baselines or {"prod": 10}).items()
    }
    packed = [*MessageReader(clusters, lambda: now_ms)(iter(batches))]
    table = pa.Table.from_batches(packed).to_pandas()
    is_refused = table["group"] == REFUSED
    return observations([table[~is_refused]]), [*refused(table[is_refused])] if is_refused.any() else []


def received(*batches: pa.RecordBatch, **baselines: int) -> list[int]:
    """Returns the sequences of the rows."""
    rows, _ = read(*batches, **baselines)
    return [row.sequence for of_cluster in rows.values() for row in of_cluster]


def refused(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the bodies of the quarantine's rows."""
    state: Any = None  # it is not used
    (output,) = Step({})((REFUSED,), iter([frame]), state)
    assert output.kind.tolist() == ["quarantine"] * len(output)
    for row in output.itertuples():
        body: dict[str, Any] = json.loads(str(row.body))
        assert (row.cluster, row.name) == (body["cluster"], f"offset-{body['offset']}")
        yield body


@pytest.mark.parametrize(
    ("batches", "baselines", "read"),
    [
        ([[message(11), message(12), message(11)], [message(12), message(13)]], {}, [11, 12, 13]),
        ([[message(11), message(12, baseline=12), message(5, cluster="other", baseline=5)]], {"prod": 12}, [12]),
        (
            [[message(12), message(5_000, epoch=5_000), message(13, at_ms=NOW_MS + 30_000)]],
            {},
            [12, 5_000],
        ),
    ],
    ids=["in the topic twice", "of an older baseline, and of another cluster", "of a relay that was replaced"],
)
def test_rows_that_do_not_count_are_skipped(
    batches: list[list[RelayMessage]], baselines: dict[str, int], read: list[int]
) -> None:
    assert received(*(kafka_batch(*each) for each in batches), **baselines) == read


def test_unreadable_messages_are_quarantined_and_the_others_are_read() -> None:
    damaged = message(12).value()[:-1] + b"x"
    batch = kafka_batch(message(11), b"hello", damaged, message(13), partition=3)
    rows, bodies = read(batch)

    assert [row.sequence for row in rows["prod"]] == [11, 13]
    assert {body["cluster"] for body in bodies} == {"topic observations partition 3"}
    assert all(part in body["reason"] for part, body in zip(("version 104", "CRC-32C"), bodies, strict=True))
    assert [(one["rows_of"], one["part"], one["offset"]) for one in bodies] == [
        ("prod", "message", 1),
        ("prod", "message", 2),
    ]


MINUTE, YEAR = 60_000, 365 * 86_400_000
FORGED = {
    "time": message(12, at_ms=NOW_MS + MINUTE + 1),
    "time of a year": message(12, at_ms=NOW_MS + YEAR),
    "sequence": message(600_011, at_ms=NOW_MS),
    "sequence of all": message((1 << 63) - 1, at_ms=NOW_MS),
    "sequence before its epoch": message(12, epoch=13),
    "sequence of an epoch": message(200_000_000, epoch=180_000_011, at_ms=NOW_MS),
    "cluster id": message(12, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"),
    "baseline": message(12, baseline=13),
    "baseline of all": message((1 << 63) - 1, at_ms=NOW_MS, baseline=(1 << 63) - 1),
    "baseline in the future": replace(message(12), baseline=Baseline(sequence=10, at_ms=NOW_MS + YEAR)),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_row_is_refused_and_the_rows_of_the_right_relay_are_read(kind: str) -> None:
    rows, (body,) = read(kafka_batch(message(11), FORGED[kind], message(12), message(13)))

    assert [row.sequence for row in rows["prod"]] == [11, 12, 13]
    assert (body["rows_of"], body["offset"], body["cluster"]) == ("prod", 1, "topic observations partition 0")
    assert body["part"] == next(part for part in RefusedPart if kind.startswith(part.value))


@pytest.mark.parametrize(
    "right",
    [
        message(12, at_ms=NOW_MS + MINUTE),
        message(600_010, at_ms=NOW_MS),
        message(12, baseline=12),
        message(60_000_010, epoch=60_000_010, at_ms=NOW_MS),
    ],
)
def test_row_within_the_limits_is_read(right: RelayMessage) -> None:
    at_ms = right.observation.observed_at_ms - MINUTE

    assert received(kafka_batch(right, at_ms=at_ms)) == [right.observation.sequence]


def test_a_time_that_the_producer_has_given_its_message_counts_only_when_it_has_come() -> None:
    forged = kafka_batch(message(11, at_ms=NOW_MS + YEAR), at_ms=NOW_MS + YEAR, by_broker=False)

    rows, (body,) = read(forged)
    assert (rows, body["cluster"]) == ({}, "topic observations partition 0")
    for batch in (forged, kafka_batch(message(11), by_broker=False)):
        rows, bodies = read(batch, now_ms=NOW_MS + YEAR)
        assert [*rows] == ["prod"]
        assert not bodies


def test_rows_of_a_cluster_in_another_topic_are_refused() -> None:
    rows, (body,) = read(
        kafka_batch(message(11), message(11, cluster="unknown"), topic="tenant-b"), kafka_batch(message(12))
    )

    assert [row.sequence for row in rows["prod"]] == [12]
    assert (body["cluster"], body["part"], body["rows_of"]) == ("topic tenant-b partition 0", "topic", "prod")


def test_jars_are_added_to_configured_ones(tmp_path: Any) -> None:
    jar = tmp_path / "a.jar"
    assert kafka_settings([jar], {"spark.jars": "b.jar", "x": "y"})["spark.jars"] == f"b.jar,{jar}"


def test_login_by_password_quotes_the_password(tmp_path: Path) -> None:
    options = connection_options(
        TopicSection(
            bootstrap=("a:1",),
            topic="t",
            security_protocol="SASL_SSL",
            ssl_cafile=tmp_path / "ca.pem",
            ssl_check_hostname=False,
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="kraftwatch",
            sasl_plain_password=SecretStr('a"b\\c'),
        )
    )

    assert options["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="kraftwatch" password="a\\"b\\\\c";'
    )
    assert options["kafka.ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_client_certificate_is_given_with_a_key_that_java_reads(tmp_path: Path) -> None:
    file = Path(authority(tmp_path).issue("monitor"))
    key = load_pem_private_key(file.read_bytes(), None)
    encrypted = tmp_path / "key.pem"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    topic = TopicSection(
        bootstrap=("a:1",),
        topic="t",
        security_protocol="SSL",
        ssl_certfile=file,
        ssl_keyfile=encrypted,
        ssl_password=SecretStr("secret"),
    )

    options = connection_options(topic)

    assert options["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    chain = options["kafka.ssl.keystore.certificate.chain"]
    assert chain.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in chain
    one_file = connection_options(TopicSection(bootstrap=("a:1",), topic="t", ssl_certfile=file))
    assert one_file["kafka.ssl.keystore.key"] == options["kafka.ssl.keystore.key"]
    wrong = TopicSection(bootstrap=("a:1",), topic="t", ssl_certfile=tmp_path / "ca.pem")
    with pytest.raises(UsageError, match="has no private key"):
        connection_options(wrong)


def test_spark_hides_the_options_that_hold_secrets() -> None:
    for name in ("kafka.sasl.jaas.config", "kafka.ssl.keystore.key"):
        for pattern in REDACTION.values():
            assert re.search(pattern, name)


def test_a_refused_message_names_its_cluster_only_if_it_is_a_monitored_one() -> None:
    _, found = read(kafka_batch(message(11, cluster_id="wrong"), b"no row"), kafka_batch(b"no row"), other=1)
    assert {one["rows_of"] for one in found} == {None}
    _, found = read(kafka_batch(message(11, cluster_id="wrong")))
    assert [one["rows_of"] for one in found] == ["prod"]
