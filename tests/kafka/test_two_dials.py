"""Where the two dials of `kraftwatch witness` differ: Kafka's own tools, and kraftwatch's. On one real controller.

Each case is a listener of its own, and the properties file of a node that dials it. KRAFTWATCH_REWRITE_GOLDENS=1
writes the expected table, and into docs/witness.md the rows that differ.
"""

import datetime
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from connectors.witness.dial import Attempts, witness
from deploy.lab.addresses import DOMAIN
from deploy.lab.node import Listener
from rules.model.witness import Reached
from tests.golden_file import assert_golden
from tests.kafka.conftest import MakeLab
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(900), pytest.mark.debian("openssl")]
HOST = f"c1.{DOMAIN}"
DOCUMENT = Path(__file__).parents[2] / "docs" / "witness.md"
TABLE = Path(__file__).parents[1] / "data" / "two_dials.md"
BEGIN, END = "<!-- dials -->", "<!-- /dials -->"
HEAD = ["| the voter, or the node that dials | `--kafka` | without |", "|---|---|---|"]
REACHED, UNKNOWN = "reached", "unknown"
_PASSWORD = "of-the-store"
_DAY = datetime.timedelta(days=1)
_PEM = serialization.Encoding.PEM
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_KEYS: Mapping[str, Callable[[], "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey"]] = {
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "rsa": lambda: rsa.generate_private_key(65_537, 2_048),
    "rsa-1024": lambda: rsa.generate_private_key(65_537, 1_024),
}
_USAGES = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
           "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Made:
    """A key and a certificate, and those of who issued it."""

    key: "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey"
    certificate: x509.Certificate
    issuer: "Made | None" = None

    @property
    def chain(self) -> list[x509.Certificate]:
        return [self.certificate, *([] if self.issuer is None else self.issuer.chain)]

    def pem(self, *, chain: bool = True) -> bytes:
        key = self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return key + b"".join(one.public_bytes(_PEM) for one in (self.chain if chain else self.chain[:1]))

    @property
    def trust(self) -> bytes:
        return self.certificate.public_bytes(_PEM)


def made(
    name: str,
    issuer: Made | None = None,
    *,
    key: str = "ec",
    hosts: Sequence[str] = (HOST,),
    usage: Sequence[str] | None = ("digital_signature",),
    extended: Sequence[x509.ObjectIdentifier] | None = (_SERVER, _CLIENT),
    authority: bool | None = False,
    days: tuple[int, int] = (-7, 20),
) -> Made:
    own = _KEYS[key]()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
    )
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if usage is not None:
        builder = builder.add_extension(x509.KeyUsage(**{one: one in usage for one in _USAGES}), critical=True)
    if extended is not None and not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    if hosts and not authority:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(one) for one in hosts]), critical=False
        )
    signer = own if issuer is None else issuer.key
    return Made(key=own, certificate=builder.sign(signer, hashes.SHA256()), issuer=issuer)


def authority(name: str = "authority", issuer: Made | None = None, **options: object) -> Made:
    usage = ("key_cert_sign", "crl_sign")
    return made(name, issuer, **{"usage": usage, "authority": True, **options})  # type: ignore[arg-type]


def signed_with_sha1(of: Made, authority_: Made) -> Made:
    """Returns a self-signed one as issued by this authority, signed as cryptography refuses to."""
    with TemporaryDirectory() as folder:
        own, issuer, signed = (Path(folder) / name for name in ("own.pem", "issuer.pem", "signed.pem"))
        own.write_bytes(of.trust)
        issuer.write_bytes(authority_.pem())
        command = ["openssl", "x509", "-in", str(own), "-CA", str(issuer), "-CAkey", str(issuer), "-sha1"]
        subprocess.run([*command, "-preserve_dates", "-set_serial", "7", "-out", str(signed)], check=True)
        return replace(of, issuer=authority_, certificate=x509.load_pem_x509_certificate(signed.read_bytes()))


ROOT = authority()
RSA_ROOT = authority("RSA authority", key="rsa")
MIDDLE = authority("intermediate", ROOT)
OTHER = authority("other")
NODE = made("node", ROOT)
"""The certificate of the node that dials."""
Lines = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the voter's listener has, and what the node that dials has otherwise than by default."""

    shows: Made = field(default_factory=lambda: made("voter", ROOT))
    chain: bool = True
    listener: Lines = field(default_factory=dict)
    protocol: str = "SSL"
    trusts: bytes = ROOT.trust
    own: Made = NODE
    node: Lines = field(default_factory=dict)
    host: str = HOST
    store: Callable[[Path], Lines] | None = None


def inline(content: bytes) -> str:
    return content.decode().replace("\n", "\\n")


def pkcs12_by_keytool(folder: Path) -> Lines:
    trust, store = folder / "root.pem", folder / "trust.p12"
    trust.write_bytes(ROOT.trust)
    return _imported(trust, store, "PKCS12")


def jks(folder: Path) -> Lines:
    trust, store = folder / "root.pem", folder / "trust.jks"
    trust.write_bytes(ROOT.trust)
    return _imported(trust, store, "JKS")


def _imported(trust: Path, store: Path, kind: str, *options: str) -> Lines:
    command = ["keytool", *options, "-importcert", "-noprompt", "-alias", "root", "-file", str(trust)]
    command += ["-keystore", str(store), "-storetype", kind, "-storepass", _PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    return _store(store, kind)


def _store(store: Path, kind: str) -> Lines:
    return {
        "ssl.truststore.location": str(store),
        "ssl.truststore.type": kind,
        "ssl.truststore.password": _PASSWORD,
        "ssl.truststore.certificates": "",
    }


def pkcs12_by_openssl(folder: Path) -> Lines:
    trust, store = folder / "root.pem", folder / "openssl.p12"
    trust.write_bytes(ROOT.trust)
    command = ["openssl", "pkcs12", "-export", "-nokeys", "-in", str(trust), "-out", str(store)]
    subprocess.run([*command, "-passout", f"pass:{_PASSWORD}"], check=True, capture_output=True)
    return _store(store, "PKCS12")


def pkcs12_of_old_java(folder: Path) -> Lines:
    trust, store = folder / "root.pem", folder / "old.p12"
    trust.write_bytes(ROOT.trust)
    return _imported(trust, store, "PKCS12", "-J-Dkeystore.pkcs12.legacy")


def its_key_store(folder: Path) -> Lines:
    store = folder / "own.p12"
    encryption = serialization.BestAvailableEncryption(_PASSWORD.encode())
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", NODE.key, NODE.certificate, NODE.chain[1:], encryption)
    )
    return _store(store, "PKCS12")


def own_key_in_old_jks(folder: Path) -> Lines:
    source = its_key_store(folder)["ssl.truststore.location"]
    store = folder / "own.jks"
    command = ["keytool", "-importkeystore", "-noprompt", "-srckeystore", source, "-destkeystore", str(store)]
    command += ["-deststoretype", "JKS", "-srcstorepass", _PASSWORD, "-deststorepass", _PASSWORD]
    subprocess.run(command, check=True, capture_output=True)
    return {
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "JKS",
        "ssl.keystore.password": _PASSWORD,
        "ssl.keystore.key": "",
        "ssl.keystore.certificate.chain": "",
    }


_REQUIRED = {"ssl.client.auth": "required"}
_12 = "TLSv1.2"
CASES: Mapping[str, Case] = {
    "a certificate of the same authority": Case(),
    "key usage: key encipherment alone, RSA": Case(shows=made("v", ROOT, key="rsa", usage=["key_encipherment"])),
    "the same, TLS 1.2": Case(
        shows=made("v", ROOT, key="rsa", usage=["key_encipherment"]), node={"ssl.enabled.protocols": _12}
    ),
    "key usage: key agreement alone": Case(shows=made("v", ROOT, usage=["key_agreement"])),
    "no key usage": Case(shows=made("v", ROOT, usage=None)),
    "extended key usage: client alone": Case(shows=made("v", ROOT, extended=[_CLIENT])),
    "no extended key usage": Case(shows=made("v", ROOT, extended=None)),
    "the node's own: server alone, and the voter requires one": Case(
        own=made("node", ROOT, extended=[_SERVER]), listener=_REQUIRED
    ),
    "the node's own: expired": Case(own=made("node", ROOT, days=(-9, -1)), listener=_REQUIRED),
    "the node's own: of an authority that the voter does not trust": Case(own=made("node", OTHER), listener=_REQUIRED),
    "the same, and the voter only requests one": Case(
        own=made("node", OTHER), listener={"ssl.client.auth": "requested"}
    ),
    "RSA key of 1024 bits": Case(shows=made("v", ROOT, key="rsa-1024")),
    "signed with SHA-1": Case(shows=signed_with_sha1(made("v"), RSA_ROOT), trusts=RSA_ROOT.trust),
    "no subject alternative name, the name as common name": Case(shows=made(HOST, ROOT, hosts=())),
    "the name for another host": Case(shows=made("v", ROOT, hosts=["other.test"])),
    "a part of the name as a wildcard (c*)": Case(shows=made("v", ROOT, hosts=[f"c*.{DOMAIN}"])),
    "a wildcard for the whole label": Case(shows=made("v", ROOT, hosts=[f"*.{DOMAIN}"])),
    "a wildcard below a top-level domain": Case(shows=made("v", ROOT, hosts=["*.invalid"]), host="c1.invalid"),
    "an underscore in the name": Case(shows=made("v", ROOT, hosts=["c_1.test"]), host="c_1.test"),
    "the name in capital letters": Case(shows=made("v", ROOT, hosts=[HOST.upper()])),
    "a dot behind the name": Case(host=f"{HOST}."),
    "expired": Case(shows=made("v", ROOT, days=(-9, -1))),
    "not yet valid": Case(shows=made("v", ROOT, days=(3, 9))),
    "expired, and itself in the trust store": Case(shows=(e := made("v", ROOT, days=(-9, -1))), trusts=e.trust),
    "itself in the trust store": Case(shows=(s := made("v", ROOT)), trusts=s.trust),
    "another authority": Case(shows=made("v", OTHER)),
    "without its intermediate certificate": Case(shows=made("v", MIDDLE), chain=False),
    "with it": Case(shows=made("v", MIDDLE)),
    "the trust store has the intermediate certificate alone": Case(shows=made("v", MIDDLE), trusts=MIDDLE.trust),
    "an authority without the right to sign certificates": Case(
        shows=made("v", bad := authority("unsigning", usage=["crl_sign"])), trusts=bad.trust
    ),
    "an authority without basic constraints": Case(
        shows=made("v", old := authority("old", authority=None, usage=None)), trusts=old.trust
    ),
    "an authority that has expired": Case(shows=made("v", past := authority("past", days=(-9, -1))), trusts=past.trust),
    "one suite of TLS 1.3 each, another one": Case(
        listener={"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, node={"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}
    ),
    "one suite of TLS 1.3 of the node, all of the voter": Case(node={"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}),
    "one suite of TLS 1.2 each, another one": Case(
        listener={"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
        node={"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
    ),
    "a suite with CBC and SHA-1 of the voter, all of the node": Case(
        listener={"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"}
    ),
    "the same suite of both": Case(
        listener={"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"},
        node={"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"},
    ),
    "RSA without key exchange, of both": Case(
        shows=made("v", ROOT, key="rsa", usage=["digital_signature", "key_encipherment"]),
        listener={"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_GCM_SHA256"},
        node={"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_GCM_SHA256"},
    ),
    "a suite that OpenSSL lacks, of both": Case(
        shows=made("v", ROOT, key="rsa", usage=["key_agreement", "digital_signature"]),
        listener={"ssl.cipher.suites": "TLS_EMPTY_RENEGOTIATION_INFO_SCSV,TLS_AES_128_GCM_SHA256"},
        node={"ssl.cipher.suites": "TLS_EMPTY_RENEGOTIATION_INFO_SCSV,TLS_AES_128_GCM_SHA256"},
    ),
    "TLS 1.2 of the node, TLS 1.3 of the voter": Case(
        listener={"ssl.enabled.protocols": "TLSv1.3"}, node={"ssl.enabled.protocols": _12}
    ),
    "ssl.protocol=TLSv1.2 of the node, TLS 1.3 of the voter": Case(
        listener={"ssl.enabled.protocols": "TLSv1.3"}, node={"ssl.protocol": _12}
    ),
    "no check of the name": Case(
        shows=made("v", ROOT, hosts=["other.test"]), node={"ssl.endpoint.identification.algorithm": ""}
    ),
    "a trust store of JKS": Case(store=jks),
    "of PKCS12": Case(store=pkcs12_by_keytool),
    "of PKCS12 as Java 8 encrypts it": Case(store=pkcs12_of_old_java),
    "of PKCS12 by `openssl pkcs12 -export -nokeys`": Case(store=pkcs12_by_openssl),
    "the key store as trust store, with the authority in its chain": Case(store=its_key_store),
    "a key store of JKS, and the voter requires a certificate": Case(store=own_key_in_old_jks, listener=_REQUIRED),
    "TLS, and the voter has none": Case(protocol="PLAINTEXT"),
    "no TLS, and the voter has": Case(node={"listener.security.protocol.map": "CTL:PLAINTEXT"}),
}


def listener(folder: Path, number: int, case: Case) -> Listener:
    file = folder / f"{number}.pem"
    file.write_bytes(case.shows.pem(chain=case.chain))
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": inline(ROOT.trust),
        **case.listener,
    }
    return Listener(name=f"L{number}", protocol=case.protocol, properties=properties if case.protocol == "SSL" else {})


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("keys")
    listeners = [listener(folder, number, case) for number, case in enumerate(CASES.values())]
    started = shared_lab(controllers=1, brokers=0, named=True, listeners=listeners)
    started.names.add("c1.invalid", "c_1.test", f"{HOST}.")
    return started


@pytest.fixture(scope="module")
def kafka(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "libs").symlink_to(lab.jvm.jars)
    return folder


def dialled(lab: Lab, folder: Path, number: int, case: Case, kafka: Path | None) -> str:
    """Returns what the row says: `reached`, `unknown`, or the step that failed."""
    folder.mkdir(parents=True)
    _, port = lab.node(1).listeners[number]
    data = folder / "data"
    data.mkdir(exist_ok=True)
    meta = f"version=1\ncluster.id={lab.cluster_id}\nnode.id=2\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    (data / "meta.properties").write_text(meta)
    own = folder / "own.pem"
    own.write_bytes(case.own.pem())
    values = {
        "node.id": "2",
        "controller.listener.names": "CTL",
        "listener.security.protocol.map": "CTL:SSL",
        "log.dirs": str(data),
        "controller.quorum.voters": f"1@{case.host}:{port},2@{HOST}:1",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": inline(case.trusts),
        **case.node,
        **({} if case.store is None else case.store(folder)),
    }
    file = folder / "controller.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items() if value or name not in _EMPTY))
    row = witness(file, timeout_s=3.0, attempts=Attempts(), kafka=kafka)
    if row.not_dialled:
        return UNKNOWN
    (peer,) = row.peers
    return {Reached.YES: REACHED, Reached.UNKNOWN: UNKNOWN}.get(peer.reached) or f"no: {peer.step}"


_EMPTY = {"ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain"}


def test_the_table_of_both_dials(lab: Lab, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Djdk.net.hosts.file={lab.hosts_file}")
    lines, differing = [*HEAD], [*HEAD]
    for number, (name, case) in enumerate(CASES.items()):
        outcomes = {dial: dialled(lab, tmp_path / f"{number}-{dial}", number, case, dial) for dial in (kafka, None)}
        assert outcomes[None] in (outcomes[kafka], UNKNOWN) or outcomes[kafka] == REACHED, name
        lines.append(f"| {name} | {outcomes[kafka]} | {outcomes[None]} |")
        if outcomes[None] != outcomes[kafka]:
            differing.append(lines[-1])
    assert_golden(TABLE, "\n".join(lines))
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    assert_golden(DOCUMENT, "\n".join([before + BEGIN, *differing, END + rest.partition(END)[2]]))
