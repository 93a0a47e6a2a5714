"""`kraftwatch witness --kafka`: Kafka's own tools dial, also with logins that kraftwatch cannot do as the node."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.witness.dial import Attempts, witness
from connectors.witness.kafka_tools import KafkaTools, ToolOutcome
from deploy.lab.node import CONTROLLER, Listener
from rules.model.witness import DialledBy, DialStep, PeerDial, Reached, WitnessRow
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.lab import Lab
from tests.lab_kerberos import REALM, KerberosRealm
from tests.lab_security import ADMIN, OAUTHBEARER

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.debian("krb5-kdc", "krb5-admin-server")]
HOST = "c1.kraftwatch.invalid"
PEER, NOBODY, ALTERS = "peer", "nobody", "alters"
_GSSAPI = "GSS"
_BEARER = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with KerberosRealm(tmp_path_factory.mktemp("kerberos") / "realm") as started:
        started.add(PEER)
        yield started


@pytest.fixture(scope="module")
def lab(realm: KerberosRealm, shared_lab: MakeLab) -> Lab:
    listeners: list[Listener] = [realm.listener(_GSSAPI, "SASL_SSL", f"kafka/{HOST}"), OAUTHBEARER]
    return shared_lab(
        controllers=0,
        combined=1,
        brokers=0,
        named=True,
        users=[],
        listeners=listeners,
        java_options=realm.java_options,
        properties={"super.users": f"User:{ADMIN};User:{PEER}"},
    )


@pytest.fixture
def kafka(lab: Lab, tmp_path: Path) -> Path:
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "libs").symlink_to(lab.jvm.jars)
    return folder


def dial(
    lab: Lab,
    folder: Path,
    kafka: Path | None,
    listener: str,
    lines: Mapping[str, str],
    node: int = 1,
    attempts: Attempts | None = None,
) -> WitnessRow:
    """Returns the row of a node that dials this listener of the only controller."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "meta.properties").write_text(f"version=1\ncluster.id={lab.cluster_id}\nnode.id=9\n")
    ports = {each.name: port for each, port in lab.node(1).listeners}
    port = ports.get(listener, lab.node(1).controller_port)
    values = {
        "node.id": "9",
        "controller.listener.names": "CTL",
        "listener.security.protocol.map": "CTL:SASL_SSL",
        "log.dirs": str(data),
        "controller.quorum.voters": f"{node}@{HOST}:{port}",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(lab.security.ca_file),
        **lines,
    }
    file = folder / "controller.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return witness(file, timeout_s=5.0, attempts=attempts or Attempts(), kafka=kafka)


def gssapi(realm: KerberosRealm) -> Mapping[str, str]:
    keytab = realm.keytab("peer.keytab", PEER)
    return {
        "sasl.kerberos.service.name": "kafka",
        "listener.name.ctl.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{PEER}@{REALM}";',
    }


def bearer(lab: Lab, folder: Path, subject: str) -> Mapping[str, str]:
    token = folder / "token.jwt"
    token.write_text(lab.security.tokens.token(subject))
    prefix = "listener.name.ctl.oauthbearer"
    return {
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        f"{prefix}.sasl.jaas.config": f"{_BEARER}.OAuthBearerLoginModule required;",
        f"{prefix}.sasl.login.callback.handler.class": f"{_BEARER}.OAuthBearerLoginCallbackHandler",
        f"{prefix}.sasl.oauthbearer.token.endpoint.url": token.as_uri(),
    }


def options(lab: Lab, realm: KerberosRealm, folder: Path) -> str:
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={(folder / 'token.jwt').as_uri()}"
    return " ".join([f"-Djdk.net.hosts.file={lab.hosts_file}", *realm.java_options, allowed])


def outcome(peer: PeerDial) -> tuple[Reached, DialStep | None]:
    return peer.reached, peer.step


def test_kerberos_is_dialled_by_kafka_alone(
    lab: Lab, realm: KerberosRealm, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options(lab, realm, tmp_path))
    python = dial(lab, tmp_path, None, _GSSAPI, gssapi(realm))
    assert (python.dialled_by, python.peers) == (DialledBy.PYTHON, ())
    assert "the login by GSSAPI is not one that kraftwatch can do as the node" in python.not_dialled

    def is_reached() -> None:
        row = dial(lab, tmp_path, kafka, _GSSAPI, gssapi(realm))
        assert (row.dialled_by, row.not_dialled, row.login) == (DialledBy.KAFKA, "", "GSSAPI")
        assert outcome(row.peers[0]) == (Reached.YES, None), row.peers
        assert row.leader_ahead_ms is not None
        assert abs(row.leader_ahead_ms) < 2_000

    # Who answers is known as soon as the controller has registered.
    eventually(is_reached, within_s=60)


def test_a_password_of_another_config_provider_is_read_by_kafka(
    lab: Lab, realm: KerberosRealm, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options(lab, realm, tmp_path))
    monkeypatch.setenv("OWN_PASSWORD", lab.security.passwords[ADMIN])
    lines = {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "listener.name.ctl.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="${{env:OWN_PASSWORD}}";',
    }

    assert "comes from a config provider" in dial(lab, tmp_path, None, CONTROLLER, lines).not_dialled
    (peer,) = dial(lab, tmp_path, kafka, CONTROLLER, lines).peers
    assert outcome(peer) == (Reached.YES, None), peer
    monkeypatch.setenv("OWN_PASSWORD", "another")
    (peer,) = dial(lab, tmp_path, kafka, CONTROLLER, lines).peers
    assert (outcome(peer), peer.why) == (
        (Reached.NO, DialStep.LOGIN),
        "Authentication failed: Invalid username or password",
    )


def test_kafkas_tools_dial_again_once_something_has_changed(
    lab: Lab, realm: KerberosRealm, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options(lab, realm, tmp_path))
    dials, attempts, dialled = [], Attempts(), KafkaTools.dial

    def counted(tools: KafkaTools, endpoint: str, cluster_id: str | None) -> ToolOutcome:
        dials.append(endpoint)
        return dialled(tools, endpoint, cluster_id)

    monkeypatch.setattr(KafkaTools, "dial", counted)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(lab.security.ca_file.read_bytes())
    password = lab.security.passwords[ADMIN]

    def again(**lines: str) -> tuple[tuple[Reached, DialStep | None], int]:
        plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}"'
        login = {
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.ctl.plain.sasl.jaas.config": f'{plain} password="{password}";',
            "ssl.truststore.location": str(trusted),
            **lines,
        }
        (peer,) = dial(lab, tmp_path, kafka, CONTROLLER, login, attempts=attempts).peers
        return outcome(peer), len(dials)

    reached = Reached.YES, None
    assert [again() for _ in range(3)] == [(reached, 1)] * 3
    assert again(**{"ssl.protocol": "TLSv1.2"}) == (reached, 2), "its properties"
    trusted.write_bytes(trusted.read_bytes() + b"\n")
    assert [again() for _ in range(2)] == [(reached, 3)] * 2, "a file that they name"
    password = "another"
    assert again() == ((Reached.NO, DialStep.LOGIN), 4), "the login"
    password = lab.security.passwords[ADMIN]
    assert again() == (reached, 5)
    monkeypatch.setattr("connectors.witness.dial._DIALS_AGAIN_S", 0.0)
    assert again() == (reached, 6), "it is too long ago"


def test_a_folder_without_kafka_is_refused(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--kafka .*holds Kafka's jars"):
        dial(lab, tmp_path, tmp_path, OAUTHBEARER.name, {})


def test_a_token_is_read_by_kafka(
    lab: Lab, realm: KerberosRealm, kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options(lab, realm, tmp_path))

    def dialled(subject: str, node: int = 1) -> PeerDial:
        (peer,) = dial(lab, tmp_path, kafka, OAUTHBEARER.name, bearer(lab, tmp_path, subject), node).peers
        return peer

    assert outcome(dialled(PEER)) == (Reached.YES, None)
    assert outcome(dialled(PEER, node=2)) == (Reached.UNKNOWN, None), "node 1 answers there, and 2 is not registered"
    assert "is denied ALTER" in dialled(NOBODY).why
    # The last test: from now on it is not known of any login whether it is that of a super user.
    granted = [
        "--add",
        "--cluster",
        "--allow-principal",
        f"User:{ALTERS}",
        "--operation",
        "Alter",
        "--operation",
        "All",
    ]
    lab.jvm.tool("kafka-acls", [*lab.admin_options, "--bootstrap-server", *lab.running_brokers, *granted])
    assert "an ACL grants ALTER" in dialled(ALTERS).why, "a super user needs none"
