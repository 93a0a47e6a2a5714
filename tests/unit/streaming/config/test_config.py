import re
import sys
from pathlib import Path

import pytest

from connectors.errors import UsageError
from rules.model.monitoring import Access, Vantage
from streaming.config import ClusterSection, checked, host_port, load

BAD = sorted((Path(__file__).parent / "bad_config").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_each_invalid_file_is_reported_with_the_sentence_in_its_first_line(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# ")

    with pytest.raises(UsageError) as refused:
        load(path)

    error = str(refused.value)
    assert re.match(rf"{re.escape(str(path))}: (not YAML at )?line \d+[:,] ", error), "every error names its line"
    assert expected in error
    assert "\n" not in error
    assert "do-not-print-me" not in error


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--config: cannot read .*nowhere\.yaml: no such file or directory"):
        load(tmp_path / "nowhere.yaml")


def test_a_binary_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(UsageError, match="it is not UTF-8 text"):
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
            sasl_plain_password_file: {tmp_path / "password"}
            resolve: {{c1.example: 127.0.0.1}}
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
    assert config.clusters[0].vantage is Vantage.OUTSIDE
    assert config.overrides() == {"no-leader.hold": 7.0}


@pytest.mark.parametrize(
    ("settings", "access"),
    [
        ({}, Access()),
        ({"security_protocol": "SSL"}, Access(secured=True, tls=True)),
        ({"metadata_log": False}, Access(log=False)),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "sasl_plain_username": "kraftwatch",
                "sasl_plain_password": "s3cret",
            },
            Access(secured=True, tls=True, principal="User:kraftwatch"),
        ),
        # Only Kafka knows the principal of a token.
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": "token"},
            Access(secured=True, tls=True),
        ),
    ],
)
def test_rules_know_security_principal_and_log_access(settings: dict[str, object], access: Access) -> None:
    (section,) = checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"], **settings}]}, "test").clusters
    assert section.access == access


def test_default_limit_of_a_snapshot_applies_to_a_cluster_without_its_own() -> None:
    clusters = [
        {"name": "a", "bootstrap": ["c1:9093"], "max_snapshot_bytes": 2**20},
        {"name": "b", "bootstrap": ["c2:1"]},
    ]
    sections = checked({"defaults": {"max_snapshot_bytes": 2**30}, "clusters": clusters}, "test").clusters
    assert [section.cluster().max_snapshot_bytes for section in sections] == [2**20, 2**30]


def test_a_password_is_never_printed() -> None:
    config = checked(
        {"clusters": [{"name": "prod", "bootstrap": ["c1:9093"], "sasl_plain_password": "s3cret"}]}, "test"
    )

    assert "s3cret" not in repr(config)
    assert "s3cret" not in repr(config.clusters[0].cluster())


@pytest.mark.parametrize("name", ["ssl_cafile", "ssl_keyfile", "hosts_file", "sasl_plain_password_file"])
def test_an_unreadable_file_is_named_with_its_key(name: str, tmp_path: Path) -> None:
    section = ClusterSection.model_validate(
        {"name": "prod", "bootstrap": ["c1:9093"], name: tmp_path / "missing"},
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
