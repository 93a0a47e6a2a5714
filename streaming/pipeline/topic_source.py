"""The relay's topic as the source of the query, read by Spark's own Kafka source (spark-sql-kafka-0-10).

Skipped are rows of clusters that are not monitored, rows of a baseline with which the state does not begin, and rows
that are not above the newest one of their cluster: after a crash of the relay a row may be in the topic twice, and a
relay that was replaced may still write. Whatever is no message of a relay of its cluster goes to quarantine.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connectors.errors import UndecodableError, UsageError
from connectors.observations.observation import Observation
from connectors.relay.relay_message import RefusedPart, RefusedRowError, check_row, parse_message
from connectors.settings import TopicSection
from connectors.wall_clock import wall_ms
from streaming.pipeline.output_rows import TOPIC
from streaming.pipeline.python_worker import begin_task
from streaming.pipeline.schema import PACKED, PACKED_ARROW, REFUSED, pack

LOG_APPEND_TIME = 1
"""`timestampType` of a message whose time the broker has set."""

REDACTION: Mapping[str, str] = {
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore",
}
"""Spark's settings with the names of options whose values it must not print.

Secrets are in the options of the source, which Spark keeps in memory; no checkpoint holds them. A secret is read when
the query starts.
"""
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def connection_options(topic: TopicSection) -> Mapping[str, str]:
    """Returns the options of a connection, as Kafka's Java client names its settings."""
    options: dict[str, str | None] = {
        "bootstrap.servers": ",".join(topic.bootstrap),
        "security.protocol": topic.security_protocol,
    }
    if topic.ssl_cafile is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(topic.ssl_cafile.absolute())}
    if not topic.ssl_check_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    if topic.ssl_certfile is not None:
        options |= _client_certificate(topic)
    if topic.sasl_mechanism is not None:
        options |= {"sasl.mechanism": topic.sasl_mechanism, "sasl.jaas.config": _jaas(topic)}
    return {f"kafka.{name}": value for name, value in options.items() if value is not None}


def _jaas(topic: TopicSection) -> str:
    assert topic.sasl_mechanism is not None
    module = _LOGIN_MODULES.get(topic.sasl_mechanism)
    if module is None:
        raise UsageError(f"relay: source: kafka does not support sasl_mechanism {topic.sasl_mechanism}")
    password = topic.secret("sasl_plain_password")
    secret = "" if password is None else password.read()
    return f"{module} required username={_quoted(topic.sasl_plain_username or '')} password={_quoted(secret)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _client_certificate(topic: TopicSection) -> dict[str, str | None]:
    """Returns the client certificate; Java reads a private key in PKCS #8 only."""
    # Imported here: it takes a while, and few topics need it.
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    certificate = topic.ssl_certfile
    assert certificate is not None
    key_file = topic.ssl_keyfile or certificate
    password = topic.secret("ssl_password")
    try:
        chain = x509.load_pem_x509_certificates(certificate.read_bytes())
        key = load_pem_private_key(key_file.read_bytes(), None if password is None else password.read().encode())
    except OSError as problem:
        raise UsageError(
            f"relay: cannot read {problem.filename}: {(problem.strerror or 'unreadable').lower()}"
        ) from None
    except (ValueError, TypeError):
        place = certificate if key_file == certificate else f"{certificate} has no certificate, or {key_file}"
        raise UsageError(f"relay: {place} has no private key that ssl_password decrypts") from None
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "".join(one.public_bytes(Encoding.PEM).decode() for one in chain),
        "ssl.keystore.key": pkcs8.decode(),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedCluster:
    """From which messages the rows of a monitored cluster come."""

    topic: str
    cluster_id: str
    baseline: int
    """Rows of an older baseline are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """What the query reads. Raises UsageError if a file of the login cannot be read."""

    connection: TopicSection
    """To the brokers; its topic is one of those that are read."""
    rows_per_batch: int
    """maxOffsetsPerTrigger: a backlog is read in bounded batches."""
    starting_offsets: Mapping[str, Mapping[int, int]]
    """Where a new query begins, by topic and partition; -1 for the end. These topics are read."""
    clusters: Mapping[str, RelayedCluster]
    """The monitored clusters by name."""

    def observations(self, spark: SparkSession) -> DataFrame:
        """Returns the stream of packed observations."""
        reader = spark.readStream.format("kafka").options(**self._options)
        return self._packed(
            reader.option("startingOffsets", json.dumps({name: {**at} for name, at in self.starting_offsets.items()}))
            .option("maxOffsetsPerTrigger", self.rows_per_batch)
            # Without the rows that retention has deleted, the log would have a gap.
            .option("failOnDataLoss", "true")
            .load()
        )

    def recorded(self, spark: SparkSession, since_ms: int) -> DataFrame:
        """Returns the packed observations that were made since then and are in the topics now."""
        # No row is more than a minute after the broker's time of its message: such a row is refused.
        begin = {"startingTimestamp": str(max(0, since_ms - 60_000)), "startingOffsetsByTimestampStrategy": "latest"}
        return self._packed(spark.read.format("kafka").options(**self._options, **begin).load())

    @property
    def _options(self) -> dict[str, str]:
        topics = {"subscribe": ",".join(self.starting_offsets), "includeHeaders": "true"}
        return {**connection_options(self.connection), **topics}

    def _packed(self, messages: DataFrame) -> DataFrame:
        at_ms = F.unix_millis("timestamp").alias("at_ms")
        columns = messages.select(
            "key", "value", "headers", "topic", "partition", "offset", at_ms, F.col("timestampType").alias("time_type")
        )
        return columns.mapInArrow(MessageReader(self.clusters), PACKED)


def kafka_settings(jars: Sequence[Path], settings: Mapping[str, str]) -> Mapping[str, str]:
    """Returns Spark's settings with those of the Kafka source added; the given ones win."""
    paths = [*filter(None, [settings.get("spark.jars")]), *map(str, jars)]
    return {
        # An idle query asks the brokers for the topic's end after each pause.
        "spark.sql.streaming.pollingDelay": "100ms",
        **REDACTION,
        **settings,
        "spark.jars": ",".join(paths),
    }


class MessageReader:
    """`mapInArrow`: batches of messages to batches of `schema.PACKED`. Spark pickles it: it holds settings only."""

    def __init__(self, clusters: Mapping[str, RelayedCluster], clock_ms: Callable[[], int] = wall_ms) -> None:
        """`clusters` as in `TopicSource`; `clock_ms` is read where the time of a message is its producer's."""
        self._clusters = dict(clusters)
        self._clock_ms = clock_ms

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reads the messages of one task, in the order of their offsets."""
        begin_task()
        newest: dict[str, int] = {}
        for batch in batches:
            rows: list[Observation] = []
            refused: list[dict[str, Any]] = []
            for message in batch.to_pylist():
                try:
                    row = self._row(message, newest)
                except UndecodableError as problem:
                    refused.append(self._refused(message, problem))
                else:
                    rows += [] if row is None else [row]
            if rows:
                yield pack(rows)
            if refused:
                yield pa.RecordBatch.from_pylist(refused, schema=PACKED_ARROW)

    def _row(self, message: Mapping[str, Any], newest: dict[str, int]) -> Observation | None:
        headers = [(each["key"], each["value"]) for each in message["headers"] or ()]
        read = parse_message(message["key"], message["value"], headers)
        row = read.observation
        cluster = self._clusters.get(row.cluster)
        if cluster is None:
            return None
        if message["topic"] != cluster.topic:
            raise RefusedRowError(
                RefusedPart.TOPIC, f"rows of the cluster are read from the topic {cluster.topic} only"
            )
        check_row(read, cluster_id=cluster.cluster_id, appended_at_ms=self._appended_at_ms(message))
        if read.baseline.sequence < cluster.baseline or row.sequence <= newest.get(row.cluster, -1):
            return None
        newest[row.cluster] = row.sequence
        return row

    def _appended_at_ms(self, message: Mapping[str, Any]) -> int:
        # A producer can give its message any time: such a time counts only as far as it has been reached.
        at_ms = int(message["at_ms"] or 0)
        return at_ms if message["time_type"] == LOG_APPEND_TIME else min(at_ms, self._clock_ms())

    def _refused(self, message: Mapping[str, Any], problem: UndecodableError) -> dict[str, Any]:
        """Returns the packed row of a refused message: what the quarantine keeps of it, as JSON."""
        part = problem.part if isinstance(problem, RefusedRowError) else RefusedPart.MESSAGE
        key = (message["key"] or b"").decode(errors="replace")
        place = f"{TOPIC}{message['topic']} partition {message['partition']}"
        body = {
            "cluster": place,
            # The topic's offset stands for the sequence in a journal.
            "sequence": message["offset"],
            "observed_at_ms": message["at_ms"] or 0,
            "offset": message["offset"],
            "length": len(message["value"] or b""),
            "reason": str(problem),
            "part": part,
            "rows_of": key if key in self._clusters else None,
        }
        return {"group": REFUSED, "observation": json.dumps(body).encode()}
