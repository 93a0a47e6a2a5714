"""Every login method of docs/security.md at a real controller, and the message for each mistake.

One node with a listener for each method: mutual TLS, SCRAM-SHA-256 and -512, OAUTHBEARER with signed tokens, TLS
without login, PLAIN without TLS. `test_secured.py` tests PLAIN over TLS, and permissions.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import ScramMechanism
from typer.testing import Result

from connectors.observations.observation import ObservationKind
from deploy.lab.node import Listener
from rules.model.monitoring import Reason
from streaming.config import load
from tests.cli import program
from tests.eventually import eventually
from tests.kafka.gatherer_run import GathererRun, run_gatherer
from tests.kafka.lab_helpers import endpoint_of
from tests.lab import Lab
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.lab_security import MUTUAL_TLS, OAUTHBEARER, PLAIN_WITHOUT_TLS, SCRAM, TokenIssuer

pytestmark = pytest.mark.lab
TLS_ONLY = Listener(name="TLS", protocol="SSL")
LISTENERS = (
    MUTUAL_TLS,
    TLS_ONLY,
    PLAIN_WITHOUT_TLS,
    SCRAM,
    OAUTHBEARER,
)
PASSWORD, WRONG_PASSWORD, KEY_PASSWORD = "planted-password", "planted-wrong-password", "planted-key-password"
GOOD = ("mutual-tls", "encrypted-key", "tls-only", "plaintext-login", "scram-256", "scram-512", "bearer")
PRINCIPALS = ("User:CN=monitor", "User:ANONYMOUS", "User:clear", "User:scram", "User:bearer")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    """Starts one node on which each principal has the permissions that the monitor needs."""
    started = shared_lab(controllers=0, combined=1, brokers=0, users=["clear"], listeners=LISTENERS)
    started.allow_monitoring(*PRINCIPALS)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        started.set_scram_password("scram", PASSWORD, mechanism)
    return started


class LoginConfigs:
    """Creates the sections of a configuration file and the credential files that they name."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.lab = lab
        self.secrets = [PASSWORD, WRONG_PASSWORD, KEY_PASSWORD, *lab.security.passwords.values()]
        authority = lab.security.authority
        self.certificate = authority.issue("monitor")
        self.password = self.file("password", PASSWORD)
        self.token = self.file("token", self.token_for("bearer"))

    def file(self, name: str, text: str) -> str:
        """Writes a credential file atomically."""
        path = self.folder / name
        path.with_suffix(".new").write_text(text + "\n")
        path.with_suffix(".new").replace(path)
        return str(path)

    def token_for(self, subject: str, *, lifetime_s: int = 3600) -> str:
        token = self.lab.security.tokens.token(subject, lifetime_s=lifetime_s)
        self.secrets.append(token)
        return token

    def section(self, name: str, listener: Listener, **more: Any) -> dict[str, Any]:
        tls = {"ssl_cafile": str(self.lab.security.ca_file)} if "SSL" in listener.protocol else {}
        return {
            "name": name,
            "bootstrap": [endpoint_of(self.lab.node(1), listener.name)],
            # One cluster under many names is refused, unless each name resolves hosts in its own way.
            "hosts_file": self.file(f"{name}.hosts", ""),
            "security_protocol": listener.protocol,
            **tls,
            **more,
        }

    def mutual_tls(self, name: str, certificate: Path | str, **more: Any) -> dict[str, Any]:
        return self.section(name, MUTUAL_TLS, ssl_certfile=str(certificate), **more)

    def scram(self, name: str, size: int, password_file: str) -> dict[str, Any]:
        login = {"sasl_mechanism": f"SCRAM-SHA-{size}", "sasl_plain_username": "scram"}
        return self.section(name, SCRAM, **login, sasl_plain_password={"file": password_file})

    def bearer(self, name: str, token_file: str) -> dict[str, Any]:
        return self.section(name, OAUTHBEARER, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_file=token_file)

    def plain_without_tls(self, name: str, password: str) -> dict[str, Any]:
        login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "clear", "sasl_plain_password": password}
        return self.section(name, PLAIN_WITHOUT_TLS, **login)

    def config(self, name: str, *sections: dict[str, Any]) -> Path:
        file = self.folder.parent / name
        file.write_text(yaml.safe_dump({"clusters": list(sections)}))
        return file

    def assert_without_secrets(self, output: bytes, where: str) -> None:
        assert not [secret for secret in self.secrets if secret.encode() in output], where


@pytest.fixture(scope="module")
def logins(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> LoginConfigs:
    return LoginConfigs(lab, tmp_path_factory.mktemp("logins") / "files")


@pytest.fixture(scope="module")
def every(lab: Lab, logins: LoginConfigs) -> list[dict[str, Any]]:
    """Returns a section for each login method, and for each mistake that only a real node shows."""
    authority, unknown_authority = lab.security.authority, LabCertificateAuthority(logins.folder / "unknown")
    encrypted = authority.issue("monitor-encrypted", password=KEY_PASSWORD, common_name="monitor")
    key_password = logins.file("key-password", KEY_PASSWORD)
    forged = TokenIssuer(logins.folder / "unknown").token("bearer")
    logins.secrets.append(forged)
    return [
        logins.mutual_tls("mutual-tls", logins.certificate),
        logins.mutual_tls("encrypted-key", encrypted, ssl_password={"file": key_password}),
        logins.section("tls-only", TLS_ONLY),
        logins.plain_without_tls("plaintext-login", lab.security.passwords["clear"]),
        logins.scram("scram-256", 256, logins.password),
        logins.scram("scram-512", 512, logins.password),
        logins.bearer("bearer", logins.token),
        logins.mutual_tls("unknown-ca", unknown_authority.issue("monitor")),
        logins.mutual_tls("expired-certificate", authority.issue("expired", days=(-9, -2))),
        logins.mutual_tls("unknown-principal", authority.issue("stranger")),
        logins.section("revoked-node", TLS_ONLY, ssl_crlfile=str(authority.revoke(lab.security.server_file))),
        logins.plain_without_tls("wrong-password", WRONG_PASSWORD),
        {**logins.plain_without_tls("no-such-mechanism", WRONG_PASSWORD), **logins.section("no-such-mechanism", SCRAM)},
        logins.bearer("forged-token", logins.file("forged-token", forged)),
    ]


def kraftwatch(logins: LoginConfigs, verb: str, file: Path, *more: str) -> Result:
    """Runs a command and asserts that its output contains no secret."""
    result = program.kraftwatch(verb, "--config", str(file), "--json", *more)
    logins.assert_without_secrets(result.output.encode(), verb)
    return result


@pytest.fixture(scope="module")
def checked(logins: LoginConfigs, every: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    """Returns the output of `check` for each section by name. Sections with a mistake use the whole timeout."""
    good = logins.config("good.yaml", *(one for one in every if one["name"] in GOOD))
    bad = logins.config("bad.yaml", *(one for one in every if one["name"] not in GOOD))

    def check(file: Path, timeout_s: int) -> dict[str, dict[str, Any]]:
        lines = kraftwatch(logins, "check", file, "--timeout", str(timeout_s)).stdout.splitlines()
        return {one["cluster"]: one for one in map(json.loads, lines)}

    def failures_of_mistakes() -> dict[str, dict[str, Any]]:
        rejected = check(bad, 8)
        for name, one in rejected.items():
            failing = [each for blind in one["findings"] for each in blind["evidence"].get("failing", [])]
            assert failing, name
            # A pending answer is not the final reason.
            assert "timed-out" not in {each["reason"] for each in failing}, name
        return rejected

    def healthy() -> dict[str, dict[str, Any]]:
        observed = check(good, 60)
        # On a busy host the first probe of a node may get no answer in time.
        assert {one["health"] for one in observed.values()} == {"healthy"}, observed
        return observed

    return eventually(healthy, within_s=60) | eventually(failures_of_mistakes, within_s=30)


@pytest.fixture(scope="module")
def doctor_checks(logins: LoginConfigs, every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the checks of `doctor` for each section, one at a time: it refuses one cluster under two names."""

    def checks_of(section: dict[str, Any]) -> list[dict[str, Any]]:
        file = logins.config("one.yaml", section | {"cluster_id": logins.lab.cluster_id})
        checks: list[dict[str, Any]] = json.loads(kraftwatch(logins, "doctor", file).stdout)["checks"]
        # On a busy host a node may answer too late.
        assert not [one for one in checks if "did not answer in time" in one["said"]]
        return checks

    return [check for section in every for check in eventually(partial(checks_of, section), within_s=30)]


def test_log_and_polls_are_observed_with_each_login_method(checked: Mapping[str, dict[str, Any]]) -> None:
    for one in (checked[name] for name in GOOD):
        assert (one["health"], one["missing"], one["unknown"]) == ("healthy", [], []), one["cluster"]
        assert "monitor-blind" not in {finding["rule"] for finding in one["findings"]}


# Files and handshakes that fail before the node decides: tests/unit/connectors/kafka.
MISTAKES = [
    ("unknown-ca", Reason.TLS_FAILED, "the node rejected the client certificate"),
    ("expired-certificate", Reason.TLS_FAILED, "ssl_certfile {folder}/expired.pem has expired ("),
    ("revoked-node", Reason.TLS_FAILED, "the node's certificate is not trusted (certificate revoked)"),
    ("unknown-principal", Reason.DENIED, "denied"),
    ("wrong-password", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
    ("no-such-mechanism", Reason.NOT_AUTHENTICATED, "the node does not offer the configured sasl_mechanism"),
    ("forged-token", Reason.NOT_AUTHENTICATED, "the node rejected the login"),
]


@pytest.mark.parametrize(("name", "reason", "sentence"), MISTAKES, ids=lambda value: str(value).partition(" ")[0])
def test_each_mistake_is_reported_in_one_sentence_by_monitor_blind_and_doctor(
    lab: Lab,
    checked: Mapping[str, dict[str, Any]],
    doctor_checks: list[dict[str, Any]],
    name: str,
    reason: Reason,
    sentence: str,
) -> None:
    sentence = sentence.format(folder=lab.security.ca_file.parent)
    (blind,) = (finding for finding in checked[name]["findings"] if finding["rule"] == "monitor-blind")
    assert (checked[name]["health"], blind["severity"]) == ("unknown", "critical")
    assert {one["reason"] for one in blind["evidence"]["failing"]} == {reason.value}
    assert sentence in blind["summary"]

    failing = [one for one in doctor_checks if one["of"] == name and one["verdict"] == "fails"]
    assert failing
    if reason is Reason.DENIED:
        assert {one["check"] for one in failing} == {"permission"}
        (hint, *_) = failing[0]["remedy"]
        assert hint == "# Replace User:NAME with the principal that the controllers' kafka-authorizer.log shows"
    else:
        assert failing[0]["check"] in ("connection", "login")
        assert sentence in failing[0]["said"]
        assert failing[0]["remedy"]


def test_doctor_reports_each_login_method(doctor_checks: list[dict[str, Any]]) -> None:
    logins = {one["of"]: one["said"].partition(";")[0] for one in doctor_checks if one["check"] == "login"}
    assert {name: logins[name] for name in GOOD} == {
        "mutual-tls": "client certificate",
        "encrypted-key": "client certificate",
        "tls-only": "no login",
        "plaintext-login": "PLAIN as User:clear",
        "scram-256": "SCRAM-SHA-256 as User:scram",
        "scram-512": "SCRAM-SHA-512 as User:scram",
        "bearer": "OAUTHBEARER as the principal of the token",
    }
    assert not [one for one in doctor_checks if one["of"] in GOOD and one["verdict"] == "fails"]
    # The lab's certificates are valid for a week.
    certificates = [
        (one["of"], one["verdict"], one["said"]) for one in doctor_checks if one["subject"] == "ssl_certfile"
    ]
    assert ("mutual-tls", "warning", "the client certificate is valid for 19 days") in certificates
    assert "expired-certificate" not in {name for name, _, _ in certificates}, "the connection check reports it"


def test_evaluated_endpoint_is_the_one_that_controllers_use(lab: Lab, logins: LoginConfigs) -> None:
    """It is not the first one of the VotersRecord, which lists endpoints in any order."""
    file = logins.config("listeners.yaml", logins.scram("scram", 256, logins.password))
    status = json.loads(kraftwatch(logins, "status", file, "--timeout", "60").stdout)
    assert [(one["recorded"], one["verdict"]) for one in status["endpoints"]] == [(lab.node(1).endpoint, "ok")]


def observed_kinds(gatherer: GathererRun, cluster: str) -> set[ObservationKind]:
    return {row.kind for row in gatherer.rows() if row.cluster == cluster}


def test_replaced_credential_files_are_read_at_the_next_login(logins: LoginConfigs, tmp_path: Path) -> None:
    """The gatherer starts with expired or wrong credentials and is not restarted."""
    authority = logins.lab.security.authority
    certificate = logins.file("rotated.pem", authority.issue("old", days=(-9, -2), common_name="monitor").read_text())
    key_password, key = logins.file("rotated-key-password", WRONG_PASSWORD), authority.issue(
        "encrypted", password=KEY_PASSWORD, common_name="monitor"
    )  # fmt: skip
    password = logins.file("rotated-password", WRONG_PASSWORD)
    token = logins.file("rotated-token", logins.token_for("bearer", lifetime_s=-120))
    sections = [
        logins.mutual_tls("certificate", certificate),
        logins.mutual_tls("key-password", key, ssl_password={"file": key_password}),
        logins.scram("password", 256, password),
        logins.bearer("token", token),
    ]
    clusters = [one.cluster() for one in load(logins.config("rotated.yaml", *sections)).clusters]

    with run_gatherer(tmp_path, *clusters) as gatherer:

        def logins_are_rejected() -> None:
            for name in ("certificate", "key-password"):
                assert Reason.TLS_FAILED in {one.reason for _, one in gatherer.failures(name)}
            for name in ("password", "token"):
                assert Reason.NOT_AUTHENTICATED in {one.reason for _, one in gatherer.failures(name)}

        eventually(logins_are_rejected, within_s=60)
        assert not {ObservationKind.RECORDS, ObservationKind.QUORUM} & {row.kind for row in gatherer.rows()}

        logins.file("rotated.pem", logins.certificate.read_text())
        logins.file("rotated-key-password", KEY_PASSWORD)
        logins.file("rotated-password", PASSWORD)
        logins.file("rotated-token", logins.token_for("bearer"))

        def logins_are_accepted() -> None:
            for one in clusters:
                assert {ObservationKind.RECORDS, ObservationKind.QUORUM} <= observed_kinds(gatherer, one.name), one.name

        eventually(logins_are_accepted, within_s=60)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            logins.assert_without_secrets(path.read_bytes(), str(path))
