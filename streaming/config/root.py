"""The root of the configuration file."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from connectors.process.json_log import LogFormat
from connectors.settings.secret import Secret
from connectors.settings.sections import (
    ConfiguredSecret,
    Duration,
    DurationOrZero,
    Form,
    HttpSection,
    LocalFolder,
    SecretUrl,
    Section,
    ValidUrl,
    checked_text,
    host_port,
    uri_scheme,
)
from connectors.sinks.console import ConsoleSection
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.sink_entry import SinkEntry
from connectors.store.store_place import PostgresPlace, StorePlace, check_url
from streaming.config.clusters import ClustersConfig
from streaming.config.maintenance import MaintenanceSection
from streaming.config.relay_section import RelaySection
from streaming.metrics.heartbeat import HeartbeatSchedule
from streaming.metrics.otlp import OtlpTarget, metrics_url_problem
from streaming.web.page_access import PageAccess


class HeartbeatSection(Section):
    """A service that alarms when requests stop: healthchecks.io, Dead Man's Snitch, a cron monitor."""

    url: SecretUrl
    """Requested by GET while batches complete and the gatherer runs, and while the job starts. A secret: its owner can
    suppress the alarm."""
    every: Duration = 60.0
    """Time between two heartbeats. Let the service wait for three of them."""

    def schedule(self) -> HeartbeatSchedule:
        """Returns URL and interval."""
        return HeartbeatSchedule(url=self.url, every_s=self.every)


class OtlpSection(HttpSection):
    """A receiver of the metrics by OTLP (protobuf over HTTP), such as an OpenTelemetry collector."""

    url: Annotated[ConfiguredSecret, checked_text(metrics_url_problem)]
    """The whole URL to which metrics are posted: that of a collector is `http://HOST:4318/v1/metrics`."""
    attributes: Mapping[str, str] = Field(default_factory=dict)
    """Further attributes of the resource, or other values of `service.name` (`kraftwatch`, of a relay
    `kraftwatch-relay`), `service.instance.id` (the name of the host) and `service.version`."""
    every: Duration = 60.0
    """Time between two messages."""

    def target(self) -> OtlpTarget:
        """Returns what is sent where."""
        return OtlpTarget(
            url=self.url,
            headers=tuple(self.headers.items()),
            ca_file=self.ca_file,
            attributes=self.attributes,
            every_s=self.every,
        )


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


class PipelineSection(Section):
    """How the work is divided."""

    partitions: int = Field(default=1, ge=1, le=256)
    """How many of Spark's tasks evaluate at once. After a change, the state is built again."""
    trigger: DurationOrZero | None = Field(default=None, le=10)
    """The shortest time between the beginnings of two batches; default: 0, or 2 s if the checkpoint is in an object
    store, which is paid by request."""

    def spark_settings(self) -> Mapping[str, str]:
        """Returns the settings of Spark that follow from it."""
        return {SHUFFLE_PARTITIONS: str(self.partitions)}


OBJECT_STORES = ("s3a", "s3", "gs", "abfs", "abfss")
"""The schemes of object stores, whose URIs name a bucket; those of others may leave the host to a setting."""
OBJECT_STORE_TRIGGER_S = 2.0
_PAGE = Form(r"^https?://[^\s<>|]+$", "write https://HOST/PATH or http://HOST/PATH, without a blank")
_FILE_URI = re.compile(r"file:(?://)?(/.+)", re.IGNORECASE)


def checkpoint_place(value: str) -> str:
    """Returns a path, or a URI of a file system that all nodes of a Spark cluster reach."""
    scheme, file = uri_scheme(value), _FILE_URI.fullmatch(value)
    if scheme is None or file is not None:
        return value if file is None else file[1]
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("expected a URI such as s3a://BUCKET/PATH or hdfs://HOST:PORT/PATH") from None
    login, _, host = parts.netloc.rpartition("@")
    # abfss://CONTAINER@ACCOUNT/PATH is none.
    if ":" in login or (login and scheme.startswith("s3")):
        raise ValueError("expected no login in it: set spark.hadoop.fs.s3a.access.key and .secret.key in spark")
    if not parts.path.strip("/") or (scheme in OBJECT_STORES and not host):
        raise ValueError("expected a path below it, such as s3a://BUCKET/kraftwatch or hdfs://HOST:PORT/kraftwatch")
    return value.rstrip("/")


def _parsed_by(parse: Callable[[str], object]) -> AfterValidator:
    """Refuses a text that the function refuses with a ValueError."""

    def checked(value: str) -> str:
        parse(value)
        return value

    return AfterValidator(checked)


class Config(ClustersConfig):
    """The configuration of `kraftwatch run`."""

    checkpoint: Annotated[str, AfterValidator(checkpoint_place)] = "kraftwatch-checkpoint"
    """The folder of the journal, Spark's checkpoint and the ledger: the job's whole state, keep it. With `work_dir`,
    the place of Spark's checkpoint alone: a folder, or a URI such as `hdfs://…`, `s3a://…`, `gs://…`, `abfss://…`."""
    work_dir: LocalFolder | None = None
    """The folder on the driver's machine for the ledger and the logs, where `checkpoint` is Spark's alone. Keep it."""
    store: Annotated[str, _parsed_by(check_url)] | None = None
    """`postgresql://USER@HOST:PORT/DATABASE`: where alerts, their delivery, silences and what sinks remember are
    stored, with verified TLS unless `?sslmode=` says otherwise; default: a SQLite file in the checkpoint folder."""
    store_password: ConfiguredSecret | None = None
    """The password of the user in store."""
    source: Literal["gatherer", "kafka"] = "gatherer"
    """`gatherer`: the job queries the clusters itself. `kafka`: it reads the topic that `kraftwatch relay` writes."""
    relay: RelaySection | None = None
    """The topic of the relay, for `kraftwatch relay` and for `source: kafka`."""
    sinks: tuple[SinkEntry, ...] = Field(default=(SinkEntry(console=ConsoleSection()),), min_length=1)
    """Where alerts are sent."""
    docs_url: Annotated[str, ValidUrl, _PAGE] | None = None
    """The address of your copy of the documentation: notifications link to its rule pages."""
    page_url: Annotated[str, ValidUrl, _PAGE] | None = None
    """The address of this job's page for people, if it is not `listen`: notifications link to the cluster's page."""
    maintenance: tuple[MaintenanceSection, ...] = ()
    """Weekly windows in which sinks for people are not notified."""
    master: str = "local[2]"
    """Spark's master. With local[1] a batch takes 1.5 times as long."""
    spark: Mapping[str, str] = Field(default_factory=dict)
    """Further Spark settings."""
    pipeline: PipelineSection = Field(default_factory=PipelineSection)
    """How the work is divided."""
    heartbeat: HeartbeatSection | None = None
    """A dead man's switch: the URL to request while the job is healthy; default: none."""
    otlp: OtlpSection | None = None
    """Where the metrics of /metrics are sent by OTLP, by the job and by the relay; default: nowhere."""
    log_format: LogFormat = "text"
    """`json`: stderr and `log/driver.log` have one JSON object a line, alerts of the console among them."""
    listen: Annotated[str, _parsed_by(host_port)] | None = None
    """HOST:PORT of the page, /metrics, /healthz and /readyz; default: none."""
    listen_certfile: Path | None = None
    """PEM: the certificate with which `listen` is served, and those of its issuers; default: plain HTTP."""
    listen_keyfile: Path | None = None
    """PEM: the private key of listen_certfile, not encrypted; default: the key in listen_certfile."""
    listen_token_file: Path | None = None
    """A file with only the token that requests must send, read at each request. /healthz and /readyz need none. Who
    has it may acknowledge and silence alerts on the page."""
    listen_read_token_file: Path | None = None
    """A file with only the token of requests that change nothing, as Prometheus sends them."""
    listen_witness_token_file: Path | None = None
    """A file with only the token of requests that report what a controller's host sees, and may do nothing else."""

    @property
    def folder(self) -> Path:
        """Returns the job's folder: work_dir if it is set, else the checkpoint."""
        return self.work_dir or Path(self.checkpoint)

    @property
    def spark_uri(self) -> str | None:
        """Returns the URI of Spark's checkpoint, if it is not in the job's folder."""
        if self.work_dir is None:
            return None
        return self.checkpoint if uri_scheme(self.checkpoint) else f"file://{Path(self.checkpoint).absolute()}"

    @property
    def trigger_s(self) -> float:
        """The shortest time between the beginnings of two batches, in seconds."""
        if self.pipeline.trigger is not None:
            return self.pipeline.trigger
        return OBJECT_STORE_TRIGGER_S if uri_scheme(self.checkpoint) in OBJECT_STORES else 0.0

    @property
    def server(self) -> PostgresPlace | None:
        """Returns the server of the store; None if it is a file in the job's folder."""
        if self.store is None:
            return None
        return PostgresPlace(url=self.store, password=self.store_password)

    @property
    def store_place(self) -> StorePlace:
        """Returns where the job's database is."""
        return self.server or self.folder.absolute()

    @property
    def links(self) -> MessageLinks:
        """The links in the messages of all sinks."""
        return MessageLinks(docs_url=self.docs_url, page_url=self.page_url or self._listen_url())

    def _listen_url(self) -> str | None:
        if self.listen is None:
            return None
        host, port = host_port(self.listen)
        scheme = "http" if self.listen_certfile is None else "https"
        return None if host in ("0.0.0.0", "::") else f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"  # noqa: S104

    def otlp_target(self) -> OtlpTarget | None:
        """Returns where metrics are sent by OTLP; None: nowhere."""
        return None if self.otlp is None else self.otlp.target()

    def page_access(self) -> PageAccess:
        """Returns the certificate and the tokens with which `listen` is served."""
        files = {
            "token": self.listen_token_file,
            "read_token": self.listen_read_token_file,
            "witness_token": self.listen_witness_token_file,
        }
        tokens = {name: Secret(file=file) for name, file in files.items() if file is not None}
        return PageAccess(certfile=self.listen_certfile, keyfile=self.listen_keyfile, **tokens)


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_json_schema() -> dict[str, Any]:
    """Returns every key with its type, default and description; further checks of pydantic are not in it."""
    made: dict[str, Any] = {"$schema": DIALECT, **Config.model_json_schema(), "title": "kraftwatch"}
    cluster = made["$defs"]["ClusterSection"]
    # An editor validates a cluster alone, without the defaults.
    assert set(cluster["required"]) == {"name", "bootstrap"}
    return made
