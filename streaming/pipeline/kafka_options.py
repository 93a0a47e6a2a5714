"""The options of Spark's Kafka source: the connection, as Kafka's Java client names its settings.

Secrets are in the options of the source, which Spark keeps in memory: `REDACTION` hides them wherever Spark prints
options, and no checkpoint holds them. A secret is read when the query starts.
"""

from collections.abc import Mapping

from connectors.errors import UsageError
from connectors.settings import TopicConnection

REDACTION: Mapping[str, str] = {
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|jaas|keystore",
}
"""Spark's settings with the names of options whose values it must not print."""
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def connection_options(topic: TopicConnection) -> Mapping[str, str]:
    """Returns the options of a connection.

    Raises:
        UsageError: a file cannot be read, or the private key cannot be used.
    """
    options: dict[str, str | None] = {
        "bootstrap.servers": ",".join(topic.bootstrap),
        "security.protocol": topic.security_protocol,
    }
    if topic.ca_file is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(topic.ca_file.absolute())}
    if not topic.check_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    if topic.certificate_file is not None:
        options |= _client_certificate(topic)
    if topic.mechanism is not None:
        options |= {"sasl.mechanism": topic.mechanism, "sasl.jaas.config": _jaas(topic)}
    return {f"kafka.{name}": value for name, value in options.items() if value is not None}


def _jaas(topic: TopicConnection) -> str:
    assert topic.mechanism is not None
    module = _LOGIN_MODULES.get(topic.mechanism)
    if module is None:
        raise UsageError(f"relay: source: kafka does not support sasl_mechanism {topic.mechanism}")
    password = "" if topic.password is None else topic.password.read()
    return f"{module} required username={_quoted(topic.username or '')} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _client_certificate(topic: TopicConnection) -> dict[str, str | None]:
    """Returns the client certificate; Java reads a private key in PKCS #8 only."""
    # Imported here: it takes a while, and few topics need it.
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    certificate = topic.certificate_file
    assert certificate is not None
    key_file = topic.key_file or certificate
    password = None if topic.key_password is None else topic.key_password.read().encode()
    try:
        chain, key_text = certificate.read_text(encoding="utf-8"), key_file.read_bytes()
        key = load_pem_private_key(_only_key(key_text), password)
    except OSError as problem:
        raise UsageError(
            f"relay: cannot read {problem.filename}: {(problem.strerror or 'unreadable').lower()}"
        ) from None
    except (ValueError, TypeError):
        raise UsageError(f"relay: {key_file} has no private key that ssl_password decrypts") from None
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _only_certificates(chain),
        "ssl.keystore.key": pkcs8.decode(),
    }


def _only_key(pem: bytes) -> bytes:
    begin = pem.find(b"-----BEGIN", pem.find(b"PRIVATE KEY") - 40 if b"PRIVATE KEY" in pem else 0)
    return pem[max(begin, 0) :]


def _only_certificates(pem: str) -> str:
    end = "-----END CERTIFICATE-----"
    parts = [part[part.find("-----BEGIN CERTIFICATE") :] for part in pem.split(end) if "-----BEGIN CERTIFICATE" in part]
    return "\n".join(f"{part}{end}" for part in parts)
