"""The login of a topic in the words of Kafka's Java client."""

import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.settings import TopicConnection
from streaming.pipeline.kafka_options import REDACTION, connection_options
from tests.unit.connectors.kafka.certificates import authority


def test_plaintext_has_addresses_only() -> None:
    assert connection_options(TopicConnection(bootstrap=("a:1", "b:2"), topic="t")) == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_login_by_password_quotes_the_password(tmp_path: Path) -> None:
    options = connection_options(
        TopicConnection(
            bootstrap=("a:1",),
            topic="t",
            security_protocol="SASL_SSL",
            ca_file=tmp_path / "ca.pem",
            check_hostname=False,
            mechanism="SCRAM-SHA-512",
            username="kraftwatch",
            password=Secret(text='a"b\\c'),
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
    topic = TopicConnection(
        bootstrap=("a:1",),
        topic="t",
        security_protocol="SSL",
        certificate_file=file,
        key_file=encrypted,
        key_password=Secret(text="secret"),
    )

    options = connection_options(topic)

    assert options["kafka.ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    chain = options["kafka.ssl.keystore.certificate.chain"]
    assert chain.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in chain
    one_file = connection_options(TopicConnection(bootstrap=("a:1",), topic="t", certificate_file=file))
    assert one_file["kafka.ssl.keystore.key"] == options["kafka.ssl.keystore.key"]
    wrong = TopicConnection(bootstrap=("a:1",), topic="t", certificate_file=tmp_path / "ca.pem")
    with pytest.raises(UsageError, match="has no private key"):
        connection_options(wrong)


def test_spark_hides_the_options_that_hold_secrets() -> None:
    for name in ("kafka.sasl.jaas.config", "kafka.ssl.keystore.key"):
        for pattern in REDACTION.values():
            assert re.search(pattern, name)
