"""A configuration file: what its values become, and what its files and packages lack."""

import sys
from pathlib import Path

import pytest

from connectors.errors import UsageError
from rules.model.monitoring import Access, Vantage
from streaming.config import ClusterSection, checked, host_port, load


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"^--config: cannot read .*kraftwatch\.yaml: no such file or directory"),
        (b"\xff\xfe\x00", "it is not UTF-8 text"),
        (b"clusters: &all [*all]", r"kraftwatch\.yaml: a value contains itself through an alias"),
        (b"[" * 10_000, r"nested more than 50 deep"),
    ],
)
def test_file_that_cannot_be_read_is_refused(content: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "kraftwatch.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UsageError, match=sentence):
        load(path)


def test_a_whole_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("a certificate")
    (tmp_path / "password").write_text("s3cret\n")
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(
        f"""
        clusters:
          - name: prod
            bootstrap: ["c1.example:9093", "[::1]:9094"]
            vantage: outside
            security_protocol: SASL_SSL
            ssl_cafile: {tmp_path / "ca.pem"}
            sasl_mechanism: PLAIN
            sasl_plain_username: monitor
            sasl_plain_password: {{file: {tmp_path / "password"}}}
            resolve: {{c1.example: 127.0.0.1}}
            metadata_log: no
          - {{name: 2026-11-20, bootstrap: ["c2:9093"], sasl_mechanism: ~}}
        pipeline: {{partitions: 4}}
        maintenance: [{{from: 22:00, for: 4h, comment: 7}}]
        thresholds: {{no-leader: {{hold: 7}}}}
        """
    )

    config = load(path)
    cluster = config.clusters[0].cluster()

    assert cluster.bootstrap == (("c1.example", 9093), ("::1", 9094))
    assert cluster.options["sasl_plain_password_file"] == str(tmp_path / "password")
    assert "sasl_plain_password" not in cluster.options, "the gatherer reads the file at each login"
    assert cluster.options["security_protocol"] == "SASL_SSL"
    assert cluster.resolve == {"c1.example": "127.0.0.1"}
    assert not cluster.log
    assert config.clusters[1].name == "2026-11-20", "a text, without quotation marks"
    assert config.maintenance[0].from_.hour == 22
    assert config.pipeline.spark_settings() == {"spark.sql.shuffle.partitions": "4"}
    assert config.clusters[0].vantage is Vantage.OUTSIDE
    assert config.overrides() == {"no-leader.hold": 7.0}


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, Access()),
        ({"security_protocol": "SSL"}, Access(protocol="SSL")),
        ({"metadata_log": False}, Access(log=False)),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_plain_username": "kraftwatch",
                "sasl_plain_password": "s3cret",
            },
            Access(protocol="SASL_SSL", principal="User:kraftwatch", scram=True),
        ),
        # Only Kafka knows the principal of a token.
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": "token"},
            Access(protocol="SASL_SSL"),
        ),
    ],
)
def test_rules_know_security_principal_and_log_access(settings: dict[str, object], access: Access) -> None:
    (section,) = checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"], **settings}]}, "test").clusters
    assert section.access == access


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_keyfile", "hosts_file", "sasl_plain_password"])
def test_an_unreadable_file_is_named_with_its_key(name: str, tmp_path: Path) -> None:
    file = tmp_path / "missing"
    section = ClusterSection.model_validate(
        {"name": "prod", "bootstrap": ["c1:9093"], name: {"file": file} if name.endswith("password") else file},
    )

    with pytest.raises(UsageError, match=f"cluster prod: {name}: cannot read .*missing: no such file"):
        section.cluster()


def test_a_mechanism_without_its_package_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    section = ClusterSection.model_validate(
        {"name": "prod", "bootstrap": ["c1:9093"], "security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}
    )
    monkeypatch.setitem(sys.modules, "gssapi", None)  # as Python has it for a package that is not there

    with pytest.raises(UsageError, match=r"^cluster prod: sasl_mechanism GSSAPI needs the Python package gssapi"):
        section.cluster()


@pytest.mark.parametrize(
    ("text", "pair"), [("c1:9093", ("c1", 9093)), ("[::1]:9", ("::1", 9)), ("10.0.0.1:65535", ("10.0.0.1", 65535))]
)
def test_host_port(text: str, pair: tuple[str, int]) -> None:
    assert host_port(text) == pair


@pytest.mark.parametrize("text", ["c1", ":9093", "c1:", "c1:0", "c1:x", "c1:65536", ""])
def test_an_invalid_host_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        host_port(text)


@pytest.mark.parametrize(
    ("place", "work_dir", "uri"),
    [
        ("/var/lib/kraftwatch", None, None),
        ("s3a://bucket/kraftwatch/", "/var/lib/kraftwatch", "s3a://bucket/kraftwatch"),
        ("hdfs:///kraftwatch", "/var/lib/kraftwatch", "hdfs:///kraftwatch"),
        ("gs://bucket/kraftwatch", "/var/lib/kraftwatch", "gs://bucket/kraftwatch"),
        ("abfss://c@a.dfs.core.windows.net/x", "/var/lib/kraftwatch", "abfss://c@a.dfs.core.windows.net/x"),
        ("viewfs:///kraftwatch", "/var/lib/kraftwatch", "viewfs:///kraftwatch"),
        ("our-own://x/y", "/var/lib/kraftwatch", "our-own://x/y"),
        ("/mnt/spark", "/var/lib/kraftwatch", "file:///mnt/spark"),
    ],
)
def test_checkpoint_is_the_jobs_folder_or_with_a_work_dir_sparks_alone(
    place: str, work_dir: str | None, uri: str | None
) -> None:
    keys = {"source": "kafka", "relay": {"bootstrap": ["k1:9092"]}, "checkpoint": place, "work_dir": work_dir}
    config = checked({"clusters": [{"name": "a", "bootstrap": ["h:1"]}], **keys}, "test")

    assert (config.folder, config.spark_uri) == (Path("/var/lib/kraftwatch"), uri)


@pytest.mark.parametrize(
    ("checkpoint", "pipeline", "trigger_s"),
    [
        ("s3a://bucket/x", "{}", 2.0),
        ("s3a://bucket/x", "{trigger: 0}", 0.0),
        ("abfss://container@account/x", "{partitions: 2}", 2.0),
        ("hdfs://name-node/x", "{}", 0.0),
        ("/mnt/x", "{trigger: 1.5s}", 1.5),
    ],
)
def test_batches_are_rare_where_each_request_is_paid(
    checkpoint: str, pipeline: str, trigger_s: float, tmp_path: Path
) -> None:
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(
        f"""
        clusters: [{{name: prod, bootstrap: ["c1:9093"]}}]
        source: kafka
        relay: {{bootstrap: ["k:9092"], topic: rows}}
        checkpoint: {checkpoint}
        work_dir: {tmp_path}
        pipeline: {pipeline}
        """
    )
    assert load(path).trigger_s == trigger_s
