"""The main job: gatherer and recorder on a leash, the journal as a Spark stream, decode, step, deliver."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from connectors.cluster import Cluster
from connectors.errors import KraftwatchError
from connectors.kafka.identity import identify
from connectors.sinks.delivery import Delivery
from connectors.sinks.ledger import Ledger
from connectors.sinks.opening import open_sink
from connectors.sinks.silences import SilenceFile
from streaming import logs
from streaming.checkpoint import Checkpoint
from streaming.config import Config, host_port
from streaming.decode import decode_batches
from streaming.deliver import Deliver, Quarantine
from streaming.fleet import Fleet
from streaming.leash import Gatherer
from streaming.preflight import identified
from streaming.schema import EVENT, OUTPUT, STATE
from streaming.session import session
from streaming.source import JournalSource
from streaming.step import ClusterSettings, Step
from streaming.stop import StopSignal
from streaming.web.health import Pulse, health
from streaming.web.server import Server

log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError, ConnectionError)
"""What a call to Spark raises: its own error, Java's, or that Java is gone."""

Say = Callable[[str], None]
"""Tells the person at the terminal what happens, on stderr."""


class JobError(KraftwatchError):
    """The streaming query ended by itself: the checkpoint holds, a restart goes on from it."""

    code = "job"


def run(config: Config, *, say: Say) -> None:
    """Watch until told to stop (SIGINT, SIGTERM). Returns when stopped in good order.

    Raises:
        UsageError: something given cannot be; nothing was overwritten.
        JobError: the query failed.
    """
    thresholds = config.thresholds_in_force()
    clusters = [section.cluster() for section in config.clusters]
    checkpoint = Checkpoint(folder=config.checkpoint.absolute())
    with ExitStack() as stack:
        stop = stack.enter_context(StopSignal())
        stack.enter_context(checkpoint.held())
        # Opened before anything is written: a sink that cannot be is a mistake in the command line.
        sinks = [open_sink(wanted, memory=checkpoint.folder) for wanted in config.wanted()]
        recorded = checkpoint.cluster_ids()
        checkpoint.check_journal()
        ids = identified(clusters, recorded, identify)
        checkpoint.record_cluster_ids({**recorded, **ids})
        logs.direct(checkpoint.logs)
        # With its id the gatherer asks as this cluster, and another one at the same address refuses.
        known = [replace(cluster, cluster_id=ids[cluster.name]) for cluster in clusters]
        gatherer = Gatherer(known, journal=checkpoint.journal, logs=checkpoint.logs)
        gatherer.start()
        stack.callback(gatherer.stop)
        say(f"gathering from {_names(clusters)}; starting Spark")
        ledger = Ledger(checkpoint.ledger)
        stack.callback(ledger.close)
        fleet = Fleet([section.name for section in config.clusters])
        quarantine = Quarantine(checkpoint.quarantine)
        silences = SilenceFile(checkpoint.silences)
        delivery = Delivery(ledger, sinks, silences=lambda _: silences.newest())
        deliver = Deliver(delivery, quarantine, fleet=fleet, expect=gatherer.expect)
        if config.listen is not None:
            address = host_port(config.listen)
            pulse = Pulse(last_batch_at=lambda: deliver.last_batch_at, gathers=lambda: gatherer.alive)
            stack.enter_context(Server(address, [health(pulse)]))
        spark = session(master=config.master, logs=checkpoint.logs, settings=config.spark)
        stack.callback(_quietly, spark.stop)
        # Spark's context took SIGINT for itself.
        stop.arm()
        settings = {
            section.name: ClusterSettings(
                cluster_id=ids[section.name],
                bootstrap=section.bootstrap,
                vantage=section.vantage,
                access=section.access,
                thresholds=thresholds,
            )
            for section in config.clusters
        }
        query = _started(spark, checkpoint, Step(settings), deliver)
        say(f"watching {_names(clusters)}")
        _until_stopped(query, stop)


def start(spark: SparkSession, checkpoint: Checkpoint, step: Step, deliver: Deliver) -> StreamingQuery:
    """The pipeline itself, started: source -> decode -> step -> deliver."""
    spark.dataSource.register(JournalSource)
    observations = spark.readStream.format(JournalSource.NAME).option("path", str(checkpoint.journal)).load()
    output = transitions(observations, step)
    return (
        output.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", str(checkpoint.spark))
        .outputMode("append")
        .start()
    )


def _started(spark: SparkSession, checkpoint: Checkpoint, step: Step, deliver: Deliver) -> StreamingQuery:
    try:
        return start(spark, checkpoint, step, deliver)
    except SPARK_ERRORS as problem:
        raise JobError(f"the streaming query does not start on {checkpoint.spark}: {_cause(problem)}") from problem


def transitions(observations: DataFrame, step: Step) -> DataFrame:
    """Observation rows to the step's output rows."""
    events = observations.mapInArrow(decode_batches, EVENT)
    return events.groupBy("cluster", "shard").applyInPandasWithState(
        step, OUTPUT, STATE, "append", GroupStateTimeout.NoTimeout
    )


def _until_stopped(query: StreamingQuery, stop: StopSignal) -> None:
    while not stop.is_set():
        try:
            ended = query.awaitTermination(1)
        except SPARK_ERRORS as problem:
            if stop.is_set():
                return
            raise JobError(f"the streaming query failed, its checkpoint holds: {_cause(problem)}") from problem
        if ended:
            raise JobError("the streaming query ended by itself; its checkpoint holds: start again")
    _quietly(query.stop)


def _cause(problem: Exception) -> str:
    """The last line that says something, of an error that Spark wraps many times."""
    if isinstance(problem, Py4JNetworkError | OSError):
        return "Spark's Java process is gone (killed, or out of memory)"
    said = [line.strip() for line in str(problem).splitlines() if line.strip()]
    lines = [line for line in said if "Error" in line or "Exception" in line]
    return [type(problem).__name__, *said[:1], *lines[-1:]][-1][:500]


def _quietly(stop: Callable[[], None]) -> None:
    """Stop what may be ending by itself already; the checkpoint does not depend on a clean end."""
    try:
        stop()
    except Exception as problem:  # noqa: BLE001 - we leave: whatever it says, it must not hide why we leave
        log.debug("while stopping: %s", problem)


def _names(clusters: Sequence[Cluster]) -> str:
    names = [cluster.name for cluster in clusters]
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} clusters"
