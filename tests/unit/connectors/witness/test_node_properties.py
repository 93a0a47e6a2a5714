"""A controller's own properties file, as Kafka reads it."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from connectors.errors import UsageError
from connectors.kafka.credentials import tls_context
from connectors.logdir.log_dir_files import properties_of
from connectors.witness.node_jvm import LOGIN_FILE, NodeJvm
from connectors.witness.node_properties import NodeProperties, read_node_properties
from tests.lab_certificate_authority import LabCertificateAuthority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE = """
node.id=2
controller.listener.names=CTL
listeners=CTL://:9093
log.dirs=/data/a, /data/b
controller.quorum.bootstrap.servers=c1:9093, [fd00::2]:9093
"""
STORE_PASSWORD = "of-the-store"


_JVM = NodeJvm()


def read(tmp_path: Path, *lines: str, jvm: NodeJvm = _JVM) -> NodeProperties:
    file, scratch = tmp_path / "controller.properties", tmp_path / "scratch"
    file.write_text(NODE + "\n".join(lines), encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    return read_node_properties(file, scratch, jvm)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LabCertificateAuthority:
    return LabCertificateAuthority(tmp_path_factory.mktemp("authority"))


def test_lines_escapes_and_separators_are_those_of_java() -> None:
    text = b"# note \\\nnext\na = 1\nb:2\nc 3\nd=x, \\\n    y\ne=\\u00e4\\t\\\\z\nf\\:g=4\n!no=5\nh=\\\n"

    assert properties_of(text) == {
        "next": "",
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "x, y",
        "e": "ä\t\\z",
        "f:g": "4",
        "h": "",
    }
    assert properties_of("p=ä".encode(), "utf-8") == {"p": "ä"}


def test_a_listener_without_tls_and_login(tmp_path: Path) -> None:
    found = read(tmp_path)

    assert (found.node, found.listener, found.log_dir) == (2, "CTL", Path("/data/a"))
    assert (found.bootstrap, found.voters) == ((("c1", 9093), ("fd00::2", 9093)), {})
    assert (found.options, found.login, found.unusable) == ({"security_protocol": "PLAINTEXT"}, "no login", "")


def test_the_voters_of_a_static_quorum_and_the_address_at_which_the_node_is_dialled(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "controller.quorum.bootstrap.servers=",
        "controller.quorum.voters=1@c1:9093,2@c2:9094",
        "advertised.listeners=CTL://c2.example:9094",
        "metadata.log.dir=/meta",
    )

    assert found.voters == {1: ("c1", 9093), 2: ("c2", 9094)}
    assert found.bootstrap == (("c1", 9093), ("c2", 9094), ("c2.example", 9094))
    assert found.log_dir == Path("/meta")


def test_what_is_said_of_the_listener_comes_before_what_is_said_in_general(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "listener.security.protocol.map=ctl:SASL_PLAINTEXT,B:SSL",
        "sasl.mechanism.controller.protocol=SCRAM-SHA-512",
        f'listener.name.ctl.scram-sha-512.sasl.jaas.config={SCRAM} required username="ctl" \\',
        '  password="a\\\\"b; c=d" user_x="no";',
    )

    assert found.options == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ctl",
        "sasl_plain_password": 'a"b; c=d',
    }
    assert found.login == "SCRAM-SHA-512 as User:ctl"
    assert "c=d" not in repr(found)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["sasl.jaas.config=ignored"], "listener.name.ctl.gssapi.sasl.jaas.config is missing"),
        (["sasl.mechanism.controller.protocol=PLAIN", f"plain.sasl.jaas.config={PLAIN} required;"], "is missing"),
        (
            [
                "sasl.mechanism.controller.protocol=OAUTHBEARER",
                "listener.name.ctl.oauthbearer.sasl.jaas.config=OAuthBearerLoginModule required;",
            ],
            "it reads username and password of PLAIN and SCRAM",
        ),
        (
            [
                "sasl.mechanism.controller.protocol=PLAIN",
                "config.providers=vault",
                "config.providers.vault.class=example.Vault",
                "listener.name.ctl.plain.sasl.jaas.config=${vault:a:b}",
            ],
            "comes from a config provider that kraftwatch does not read",
        ),
        (["sasl.mechanism.controller.protocol=PLAIN"], "kraftwatch sees neither"),
    ],
)
def test_a_login_that_is_not_in_the_file_is_not_guessed(tmp_path: Path, lines: list[str], why: str) -> None:
    assert why in read(tmp_path, "listener.security.protocol.map=CTL:SASL_PLAINTEXT", *lines).unusable


def test_a_login_in_the_jaas_file_of_the_jvm(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    other, own = (f'{PLAIN} required username="{name}" password="a}}b";' for name in ("other", "ctl"))
    file.write_text(f"/* {{ */ KafkaServer {{ {other} }};\n// of the controllers\nctl.KafkaServer {{\n  {own}\n}};\n")
    protocol = ("listener.security.protocol.map=CTL:SASL_PLAINTEXT", "sasl.mechanism.controller.protocol=PLAIN")
    found = read(tmp_path, *protocol, jvm=NodeJvm(settings={LOGIN_FILE: str(file)}))

    assert (found.login, found.options["sasl_plain_password"]) == ("PLAIN as User:ctl", "a}b")
    assert found.client["sasl.jaas.config"] == own


def test_the_properties_of_a_client_that_dials_as_the_node_does(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "listener.security.protocol.map=CTL:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol=OAUTHBEARER",
        "ssl.truststore.location=/general",
        "listener.name.ctl.ssl.truststore.location=/of/the/listener",
        "ssl.endpoint.identification.algorithm=",
        "sasl.jaas.config=ignored",
        "sasl.login.callback.handler.class=ignored",
        "listener.name.ctl.oauthbearer.sasl.login.callback.handler.class=Handler",
        "listener.name.ctl.oauthbearer.sasl.jaas.config=Module required;",
        "config.providers=vault",
        "config.providers.vault.class=example.Vault",
        "sasl.oauthbearer.token.endpoint.url=${vault:a:b}",
    )

    assert found.client == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "ssl.truststore.location": "/of/the/listener",
        "ssl.endpoint.identification.algorithm": "",
        "sasl.login.callback.handler.class": "Handler",
        "sasl.jaas.config": "Module required;",
        "config.providers": "vault",
        "config.providers.vault.class": "example.Vault",
        "sasl.oauthbearer.token.endpoint.url": "${vault:a:b}",
    }


def test_config_providers_read_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("name=ctl\njaas.end=;\n", encoding="utf-8")
    (tmp_path / "password").write_text("pässword\n", encoding="utf-8")
    found = read(
        tmp_path,
        "listener.security.protocol.map=CTL:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol=PLAIN",
        "config.providers=file,dir",
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        f"listener.name.ctl.plain.sasl.jaas.config={PLAIN} required username="
        f'"${{file:{tmp_path}/secrets.properties:name}}" password="${{dir:{tmp_path}:password}}";',
    )

    assert found.unusable == ""
    assert found.options["sasl_plain_username"] == "ctl"
    assert str(found.options["sasl_plain_password"]).strip() == "pässword"


def stores(authority: LabCertificateAuthority, folder: Path, kind: str) -> list[str]:
    """Returns the lines that name a node's trust store and key store of this kind."""
    issued = authority.issue("server")
    pem = issued.read_bytes()
    if kind == "pem":
        return [f"ssl.truststore.location={authority.file}", f"ssl.keystore.location={issued}", *types("PEM")]
    if kind == "inline":
        key, _, chain = pem.decode().partition("-----BEGIN CERTIFICATE-----")
        return [
            f"ssl.truststore.certificates={' '.join(authority.file.read_text().split(chr(10)))}",
            f"ssl.keystore.key={' '.join(key.split(chr(10)))}",
            f"ssl.keystore.certificate.chain={' '.join(f'-----BEGIN CERTIFICATE-----{chain}'.split(chr(10)))}",
            *types("PEM"),
        ]
    trusted, own = folder / "trust.p12", folder / "own.p12"
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    certificates = x509.load_pem_x509_certificates(pem)
    private = serialization.load_pem_private_key(pem, None)
    own.write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", private, certificates[0], certificates[1:], encryption)  # type: ignore[arg-type]
    )
    trusted.write_bytes(
        pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority.file.read_bytes()), b"ca")], encryption
        )
    )
    if kind == "jks":
        trusted, own = (as_jks(file) for file in (trusted, own))
    passwords = [f"ssl.{one}.password={STORE_PASSWORD}" for one in ("truststore", "keystore")]
    return [f"ssl.truststore.location={trusted}", f"ssl.keystore.location={own}", *passwords]


def types(kind: str) -> list[str]:
    return [f"ssl.truststore.type={kind}", f"ssl.keystore.type={kind}"]


def as_jks(store: Path) -> Path:
    target = store.with_suffix(".jks")
    passwords = ("-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD)
    names = ("-srckeystore", str(store), "-destkeystore", str(target), "-deststoretype", "JKS")
    subprocess.run(["keytool", "-importkeystore", "-noprompt", *names, *passwords], capture_output=True, check=True)
    return target


@pytest.mark.parametrize("kind", ["pem", "inline", "pkcs12", "jks"])
def test_trust_and_key_of_each_kind_of_store(tmp_path: Path, authority: LabCertificateAuthority, kind: str) -> None:
    found = read(tmp_path, "listener.security.protocol.map=CTL:SSL", *stores(authority, tmp_path, kind))

    assert found.unusable == ""
    assert found.login == "the node's certificate"
    context = tls_context(found.options)
    assert len(context.get_ca_certs()) == 1
    assert context.check_hostname
    assert STORE_PASSWORD not in repr(found)


def test_a_store_that_cannot_be_used_is_no_answer_about_the_others(
    tmp_path: Path, authority: LabCertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = "listener.security.protocol.map=CTL:SSL"
    jks = stores(authority, tmp_path, "jks")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "trust.jks is read by Java's keytool, and none is found" in read(tmp_path, protocol, *jks).unusable
    assert "the node trusts what its Java does" in read(tmp_path, protocol).unusable
    monkeypatch.undo()
    wrong = [*stores(authority, tmp_path, "pkcs12"), "ssl.truststore.password=other"]
    unusable = read(tmp_path, protocol, *wrong).unusable
    assert "cannot be read by keytool with its password" in unusable
    assert "other" not in unusable
    with pytest.raises(UsageError, match="cannot read /nowhere: no such file or directory"):
        read(tmp_path, protocol, "ssl.truststore.location=/nowhere")


def test_only_what_java_trusts_of_a_store_is_trusted(tmp_path: Path, authority: LabCertificateAuthority) -> None:
    protocol, password = "listener.security.protocol.map=CTL:SSL", f"ssl.truststore.password={STORE_PASSWORD}"
    stores(authority, tmp_path, "pkcs12")
    without_mark = tmp_path / "openssl.p12"
    encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
    trusted = x509.load_pem_x509_certificates(authority.file.read_bytes())
    without_mark.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, trusted, encryption))

    found = read(tmp_path, protocol, f"ssl.truststore.location={without_mark}", password)
    assert "openssl.p12 holds no certificate that Java trusts" in found.unusable
    found = read(tmp_path, protocol, f"ssl.truststore.location={tmp_path / 'own.p12'}", password)
    (own,) = x509.load_pem_x509_certificates(Path(str(found.options["ssl_cafile"])).read_bytes())
    assert own.subject != own.issuer, "of an entry with a key, the authority in its chain is not trusted"


@pytest.mark.parametrize(
    ("lines", "versions", "suites"),
    [
        ([], ("TLSv1.2", "TLSv1.3"), None),
        (["ssl.enabled.protocols=TLSv1.2"], ("TLSv1.2", "TLSv1.2"), None),
        (
            ["ssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA"],
            ("TLSv1.2", "TLSv1.2"),
            {"ECDHE-ECDSA-AES256-GCM-SHA384", "AES128-SHA"},
        ),
        (["ssl.cipher.suites=TLS_AES_256_GCM_SHA384"], ("TLSv1.3", "TLSv1.3"), None),
        (
            [
                "ssl.cipher.suites=ignored",
                "listener.name.ctl.ssl.cipher.suites="
                "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            ],
            ("TLSv1.2", "TLSv1.3"),
            {"ECDHE-RSA-CHACHA20-POLY1305"},
        ),
    ],
)
def test_tls_is_offered_as_the_node_offers_it(
    tmp_path: Path,
    authority: LabCertificateAuthority,
    lines: list[str],
    versions: tuple[str, str],
    suites: set[str] | None,
) -> None:
    found = read(tmp_path, "listener.security.protocol.map=CTL:SSL", *stores(authority, tmp_path, "pem"), *lines)

    assert found.unusable == ""
    context = tls_context(found.options)
    assert (found.options["ssl_minimum_version"], found.options["ssl_maximum_version"]) == versions
    offered = {one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"}
    assert suites is None or offered == suites
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN, "Java trusts each certificate of a trust store"


def test_the_name_is_not_checked_only_where_the_node_does_not(
    tmp_path: Path, authority: LabCertificateAuthority
) -> None:
    tls = ["listener.security.protocol.map=CTL:SSL", *stores(authority, tmp_path, "pem")]

    assert read(tmp_path, *tls, "ssl.endpoint.identification.algorithm=https").options["ssl_check_hostname"]
    for lines in (
        ["ssl.endpoint.identification.algorithm="],
        ["ssl.endpoint.identification.algorithm=https", "listener.name.ctl.ssl.endpoint.identification.algorithm="],
    ):
        assert not read(tmp_path, *tls, *lines).options["ssl_check_hostname"]


def test_suites_that_openssl_does_not_know_are_no_answer(tmp_path: Path, authority: LabCertificateAuthority) -> None:
    tls = ["listener.security.protocol.map=CTL:SSL", *stores(authority, tmp_path, "pem")]

    found = read(tmp_path, *tls, "ssl.cipher.suites=TLS_KRB5_WITH_RC4_128_SHA")
    assert "OpenSSL of this host has none of the cipher suites" in found.unusable
    found = read(tmp_path, *tls, "ssl.enabled.protocols=TLSv1.1")
    assert "leave neither TLSv1.2 nor TLSv1.3" in found.unusable


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("controller.listener.names=", "has no controller.listener.names: give the properties file of a KRaft node"),
        ("node.id=", "has no node.id"),
        ("controller.quorum.voters=1@c1", "controller.quorum.voters: 'c1' is not HOST:PORT"),
        ("listener.security.protocol.map=B:SSL", "listener.security.protocol.map names no protocol for CTL"),
    ],
)
def test_what_is_no_controllers_file_is_one_sentence(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read(tmp_path, line)
