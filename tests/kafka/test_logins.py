"""Every way to log in that docs/security.md names, at a real controller; and what is said of each mistake.

One node with a listener for each: mutual TLS, SCRAM-SHA-256 and -512, OAUTHBEARER with signed tokens, TLS with nothing
else, PLAIN without TLS. `test_secured.py` has PLAIN over TLS, and the rights.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner, Result

from connectors.event import from_json
from connectors.observation import ObservationKind
from connectors.observation_event import ObservationFailed
from deploy.lab.certificate_authority import Authority
from deploy.lab.lab import Lab
from deploy.lab.node import Listener
from deploy.lab.oauth_issuer import TokenIssuer
from deploy.lab.security import BEARER, IN_THE_CLEAR, MUTUAL_TLS, SCRAM
from rules.model.monitoring import Reason
from streaming.cli import app
from streaming.config import load
from tests.eventually import eventually
from tests.kafka.gatherer_run import Gathering, gathering

pytestmark = pytest.mark.lab
TLS_ALONE = Listener(name="TLS", protocol="SSL")
SESSION_MS = "4000"
"""After which a listener wants a login again on the same connection (KIP-368)."""
LISTENERS = (
    MUTUAL_TLS,
    TLS_ALONE,
    IN_THE_CLEAR,
    replace(SCRAM, properties={**SCRAM.properties, "scram-sha-512.connections.max.reauth.ms": SESSION_MS}),
    replace(BEARER, properties={**BEARER.properties, "oauthbearer.connections.max.reauth.ms": SESSION_MS}),
)
PASSWORD, WRONG, KEY_PASSWORD = "planted-password", "planted-wrong-password", "planted-key-password"
GOOD = ("mutual-tls", "encrypted-key", "tls-alone", "in-the-clear", "scram-256", "scram-512", "bearer")
PRINCIPALS = ("User:CN=monitor", "User:ANONYMOUS", "User:clear", "User:scram", "User:bearer")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    """One node, at which each principal may do what the monitor needs."""
    made = shared_lab(controllers=0, combined=1, brokers=0, users=["clear"], listeners=LISTENERS)
    rights = [
        AclBinding(
            ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL,
            principal, "*", operation, AclPermissionType.ALLOW,
        )
        for principal in PRINCIPALS
        for operation in (AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION)
    ]  # fmt: skip
    client = admin(made)  # named, because its requests die with it
    for done in client.create_acls(rights).values():
        done.result(30)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        set_password(made, mechanism, PASSWORD)
    return made


def admin(lab: Lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": lab.broker_bootstrap[0], "log_level": 0, **lab.login})


def set_password(lab: Lab, mechanism: ScramMechanism, password: str) -> None:
    asked = UserScramCredentialUpsertion("scram", ScramCredentialInfo(mechanism, 4096), password.encode())
    client = admin(lab)  # named, because its requests die with it
    for done in client.alter_user_scram_credentials([asked]).values():
        done.result(30)


class Ways:
    """The sections of one configuration file, and the files that they name."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.lab = lab
        self.secrets = [PASSWORD, WRONG, KEY_PASSWORD, *lab.security.passwords.values()]
        authority = lab.security.authority
        self.certificate = authority.issue("monitor")
        self.password = self.file("password", PASSWORD)
        self.token = self.file("token", self.token_for("bearer"))

    def file(self, name: str, text: str) -> str:
        """A file of the monitor's, replaced as one is: in one step."""
        path = self.folder / name
        path.with_suffix(".new").write_text(text + "\n")
        path.with_suffix(".new").replace(path)
        return str(path)

    def token_for(self, subject: str, *, lasts_s: int = 3600) -> str:
        token = self.lab.security.tokens.token(subject, lasts_s=lasts_s)
        self.secrets.append(token)
        return token

    def section(self, name: str, listener: Listener, **more: Any) -> dict[str, Any]:
        tls = {"ssl_cafile": str(self.lab.security.ca_file)} if "SSL" in listener.protocol else {}
        return {
            "name": name,
            "bootstrap": [self.lab.node(1).endpoint_of(listener.name)],
            "cluster_id": self.lab.cluster_id,
            "security_protocol": listener.protocol,
            **tls,
            **more,
        }

    def mutual_tls(self, name: str, certificate: Path | str, **more: Any) -> dict[str, Any]:
        return self.section(name, MUTUAL_TLS, ssl_certfile=str(certificate), **more)

    def scram(self, name: str, size: int, password_file: str) -> dict[str, Any]:
        login = {"sasl_mechanism": f"SCRAM-SHA-{size}", "sasl_plain_username": "scram"}
        return self.section(name, SCRAM, **login, sasl_plain_password_file=password_file)

    def bearer(self, name: str, token_file: str) -> dict[str, Any]:
        return self.section(name, BEARER, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_file=token_file)

    def in_the_clear(self, name: str, password: str) -> dict[str, Any]:
        login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "clear", "sasl_plain_password": password}
        return self.section(name, IN_THE_CLEAR, **login)

    def config(self, name: str, *sections: dict[str, Any]) -> Path:
        file = self.folder.parent / name
        file.write_text(yaml.safe_dump({"clusters": list(sections)}))
        return file

    def without_secrets(self, said: bytes, where: str) -> None:
        assert not [secret for secret in self.secrets if secret.encode() in said], where


@pytest.fixture(scope="module")
def ways(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Ways:
    return Ways(lab, tmp_path_factory.mktemp("logins") / "files")


@pytest.fixture(scope="module")
def every(lab: Lab, ways: Ways) -> list[dict[str, Any]]:
    """Each way to log in, and each mistake."""
    authority, strange = lab.security.authority, Authority(ways.folder / "strange")
    locked = authority.issue("monitor-locked", password=KEY_PASSWORD, common_name="monitor")
    key_password = ways.file("key-password", KEY_PASSWORD)
    forged = TokenIssuer(ways.folder / "strange").token("bearer")
    ways.secrets.append(forged)
    return [
        ways.mutual_tls("mutual-tls", ways.certificate),
        ways.mutual_tls("encrypted-key", locked, ssl_password_file=key_password),
        ways.section("tls-alone", TLS_ALONE),
        ways.in_the_clear("in-the-clear", lab.security.passwords["clear"]),
        ways.scram("scram-256", 256, ways.password),
        ways.scram("scram-512", 512, ways.password),
        ways.bearer("bearer", ways.token),
        ways.section("no-certificate", MUTUAL_TLS),
        ways.mutual_tls("strange-certificate", strange.issue("monitor")),
        ways.mutual_tls("expired-certificate", authority.issue("expired", days=(-9, -2))),
        ways.mutual_tls("unknown-principal", authority.issue("stranger")),
        ways.mutual_tls("key-without-password", locked),
        ways.mutual_tls("key-with-wrong-password", locked, ssl_password=WRONG),
        ways.mutual_tls("no-pem", ways.file("no.pem", "no certificate")),
        ways.section("revoked-node", TLS_ALONE, ssl_crlfile=str(authority.revoke(lab.security.server_file))),
        ways.section("tls-in-the-clear", IN_THE_CLEAR, security_protocol="SSL"),
        ways.in_the_clear("wrong-password", WRONG),
        ways.scram("scram-wrong-password", 256, ways.file("wrong-password", WRONG)),
        {**ways.in_the_clear("no-such-mechanism", WRONG), **ways.section("no-such-mechanism", SCRAM)},
        ways.bearer("expired-token", ways.file("expired-token", ways.token_for("bearer", lasts_s=-120))),
        ways.bearer("forged-token", ways.file("forged-token", forged)),
        ways.bearer("no-token", ways.file("no-token", "no-token-of-anybody")),
    ]


def kraftwatch(ways: Ways, verb: str, file: Path, *more: str) -> Result:
    """Whatever it answers holds no secret."""
    ended = CliRunner().invoke(app, [verb, "--config", str(file), "--json", *more])
    ways.without_secrets(ended.output.encode(), verb)
    return ended


@pytest.fixture(scope="module")
def checked(ways: Ways, every: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    """One look by every way, by name: it ends as soon as all is seen, which it never is where something is wrong."""
    good = ways.config("good.yaml", *(one for one in every if one["name"] in GOOD))
    bad = ways.config("bad.yaml", *(one for one in every if one["name"] not in GOOD))

    def found(file: Path, timeout_s: int) -> dict[str, dict[str, Any]]:
        lines = kraftwatch(ways, "check", file, "--timeout", str(timeout_s)).stdout.splitlines()
        return {one["cluster"]: one for one in map(json.loads, lines)}

    def turned_away() -> dict[str, dict[str, Any]]:
        refused = found(bad, 8)
        for name, one in refused.items():
            failing = [each for blind in one["findings"] for each in blind["evidence"].get("failing", [])]
            assert failing, name
            # An answer that is still on its way is no reason yet.
            assert "timed-out" not in {each["reason"] for each in failing}, name
        return refused

    return found(good, 60) | eventually(turned_away, within_s=30)


@pytest.fixture(scope="module")
def examined(ways: Ways, every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the doctor says of each."""
    ended = kraftwatch(ways, "doctor", ways.config("every.yaml", *every))
    checks: list[dict[str, Any]] = json.loads(ended.stdout)["checks"]
    return checks


@pytest.mark.parametrize("name", GOOD)
def test_each_way_sees_the_log_and_the_polls(checked: Mapping[str, dict[str, Any]], name: str) -> None:
    one = checked[name]
    assert (one["health"], one["missing"], one["cannot_tell"]) == ("healthy", [], [])
    assert "monitor-blind" not in {found["rule"] for found in one["findings"]}


MISTAKES = [
    ("no-certificate", Reason.TLS_FAILED, "the node requires a client certificate (ssl_certfile)"),
    ("strange-certificate", Reason.TLS_FAILED, "the node rejected the client certificate"),
    ("expired-certificate", Reason.TLS_FAILED, "ssl_certfile {folder}/expired.pem has expired ("),
    (
        "key-without-password",
        Reason.TLS_FAILED,
        "the key in {folder}/monitor-locked.pem is encrypted and ssl_password_file is missing",
    ),
    ("key-with-wrong-password", Reason.TLS_FAILED, "is encrypted and ssl_password does not decrypt it"),
    ("no-pem", Reason.TLS_FAILED, "cannot be read as PEM"),
    ("revoked-node", Reason.TLS_FAILED, "the node's certificate is not trusted (certificate revoked)"),
    ("tls-in-the-clear", Reason.TLS_FAILED, "the node ended the TLS handshake: is this a plaintext listener?"),
    ("unknown-principal", Reason.DENIED, "denied"),
    ("wrong-password", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
    ("scram-wrong-password", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
    ("no-such-mechanism", Reason.NOT_AUTHENTICATED, "the node does not offer the configured sasl_mechanism"),
    ("expired-token", Reason.NOT_AUTHENTICATED, "has expired ("),
    ("forged-token", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
    ("no-token", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
]


@pytest.mark.parametrize(("name", "reason", "sentence"), MISTAKES, ids=lambda value: str(value).partition(" ")[0])
def test_a_mistake_is_one_sentence_of_monitor_blind_and_of_the_doctor(
    lab: Lab,
    checked: Mapping[str, dict[str, Any]],
    examined: list[dict[str, Any]],
    name: str,
    reason: Reason,
    sentence: str,
) -> None:
    sentence = sentence.format(folder=lab.security.ca_file.parent)
    (blind,) = (found for found in checked[name]["findings"] if found["rule"] == "monitor-blind")
    assert (checked[name]["health"], blind["severity"]) == ("unknown", "critical")
    assert {one["reason"] for one in blind["evidence"]["failing"]} == {reason.value}
    assert sentence in blind["summary"]

    bad = [one for one in examined if one["of"] == name and one["verdict"] == "fails"]
    assert bad
    if reason is Reason.DENIED:
        assert {one["check"] for one in bad} == {"rights"}
        (hint, *_) = bad[0]["mend"]
        assert hint == "# User:NAME is what the controllers' kafka-authorizer.log calls us"
    else:
        assert bad[0]["check"] in ("connection", "login")
        assert sentence in bad[0]["said"]
        assert bad[0]["mend"]


def test_the_doctor_says_how_each_way_logs_in(examined: list[dict[str, Any]]) -> None:
    said = {one["of"]: one["said"].partition(";")[0] for one in examined if one["check"] == "login"}
    assert {name: said[name] for name in GOOD} == {
        "mutual-tls": "our certificate",
        "encrypted-key": "our certificate",
        "tls-alone": "no login",
        "in-the-clear": "PLAIN as User:clear",
        "scram-256": "SCRAM-SHA-256 as User:scram",
        "scram-512": "SCRAM-SHA-512 as User:scram",
        "bearer": "OAUTHBEARER as whom the token names",
    }
    assert not [one for one in examined if one["of"] in GOOD and one["verdict"] == "fails"]
    # The lab's certificates are good for a week.
    ours = [(one["of"], one["verdict"], one["said"]) for one in examined if one["subject"] == "ssl_certfile"]
    assert ("mutual-tls", "warning", "our certificate is good for 6 days") in ours
    assert "expired-certificate" not in {name for name, _, _ in ours}, "the connection says that"


def test_the_endpoint_that_is_judged_is_the_one_that_controllers_dial(lab: Lab, ways: Ways) -> None:
    """Not the first of those that the VotersRecord lists: it lists them in any order."""
    file = ways.config("listeners.yaml", ways.scram("scram", 256, ways.password))
    status = json.loads(kraftwatch(ways, "status", file, "--timeout", "60").stdout)
    assert [(one["recorded"], one["verdict"]) for one in status["endpoints"]] == [(lab.node(1).endpoint, "ok")]


def unseen(gathered: Gathering, cluster: str, since_ms: int = 0) -> set[Reason]:
    """Why looks at a cluster failed since then."""
    rows = [
        row
        for row in gathered.rows(ObservationKind.FAILED)
        if row.cluster == cluster and row.observed_at_ms >= since_ms
    ]
    return {told.reason for told in (from_json(row.payload) for row in rows) if isinstance(told, ObservationFailed)}


def seen(gathered: Gathering, cluster: str, since_ms: int = 0) -> set[ObservationKind]:
    return {row.kind for row in gathered.rows() if row.cluster == cluster and row.observed_at_ms >= since_ms}


def newest_ms(gathered: Gathering) -> int:
    return max(row.observed_at_ms for row in gathered.rows())


def test_files_that_are_replaced_are_read_at_the_next_login(ways: Ways, tmp_path: Path) -> None:
    """A gatherer that began with what had expired; nothing is restarted."""
    authority = ways.lab.security.authority
    certificate = ways.file("rotated.pem", authority.issue("over", days=(-9, -2), common_name="monitor").read_text())
    key_password, key = ways.file("rotated-key-password", WRONG), authority.issue(
        "opened", password=KEY_PASSWORD, common_name="monitor"
    )  # fmt: skip
    password = ways.file("rotated-password", WRONG)
    token = ways.file("rotated-token", ways.token_for("bearer", lasts_s=-120))
    sections = [
        ways.mutual_tls("certificate", certificate),
        ways.mutual_tls("key-password", key, ssl_password_file=key_password),
        ways.scram("password", 256, password),
        ways.bearer("token", token),
    ]
    clusters = [one.cluster() for one in load(ways.config("rotated.yaml", *sections)).clusters]

    with gathering(tmp_path, *clusters) as gathered:

        def refused() -> None:
            for name in ("certificate", "key-password"):
                assert Reason.TLS_FAILED in unseen(gathered, name)
            for name in ("password", "token"):
                assert Reason.NOT_AUTHENTICATED in unseen(gathered, name)

        eventually(refused, within_s=60)
        assert not {ObservationKind.RECORDS, ObservationKind.QUORUM} & {row.kind for row in gathered.rows()}

        ways.file("rotated.pem", ways.certificate.read_text())
        ways.file("rotated-key-password", KEY_PASSWORD)
        ways.file("rotated-password", PASSWORD)
        ways.file("rotated-token", ways.token_for("bearer"))

        def accepted() -> None:
            for one in clusters:
                assert {ObservationKind.RECORDS, ObservationKind.QUORUM} <= seen(gathered, one.name), one.name

        eventually(accepted, within_s=60)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            ways.without_secrets(path.read_bytes(), str(path))


@pytest.mark.long
def test_a_session_that_ends_is_gone_on_with_the_password_and_token_of_now(ways: Ways, tmp_path: Path) -> None:
    """The listener wants a login again on an open connection (KIP-368), after password and token were replaced."""
    password = ways.file("session-password", PASSWORD)
    token = ways.file("session-token", ways.token_for("bearer"))
    sections = [ways.scram("password", 512, password), ways.bearer("token", token)]
    clusters = [one.cluster() for one in load(ways.config("session.yaml", *sections)).clusters]

    with gathering(tmp_path, *clusters) as gathered:

        def logged_in(since_ms: int) -> None:
            for one in clusters:
                assert ObservationKind.QUORUM in seen(gathered, one.name, since_ms), one.name

        eventually(lambda: logged_in(0), within_s=60)
        changed_ms = newest_ms(gathered)
        set_password(ways.lab, ScramMechanism.SCRAM_SHA_512, WRONG)
        ways.file("session-token", ways.token_for("bearer", lasts_s=-120))

        def refused() -> None:
            for one in clusters:
                assert Reason.NOT_AUTHENTICATED in unseen(gathered, one.name, changed_ms), one.name

        eventually(refused, within_s=60)
        mended_ms = newest_ms(gathered) + 1
        ways.file("session-password", WRONG)
        ways.file("session-token", ways.token_for("bearer"))
        try:
            eventually(lambda: logged_in(mended_ms), within_s=60)
        finally:
            set_password(ways.lab, ScramMechanism.SCRAM_SHA_512, PASSWORD)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            ways.without_secrets(path.read_bytes(), str(path))
