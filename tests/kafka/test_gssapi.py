"""GSSAPI at a real controller, with tickets of a real KDC, and the message for each mistake."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.observations.observation import ObservationKind
from rules.model.monitoring import Reason
from streaming.config import load
from tests.eventually import eventually
from tests.kafka.gatherer_run import GathererRun, run_gatherer
from tests.kafka.lab_helpers import endpoint_of
from tests.lab import Lab
from tests.lab_kerberos import REALM, KerberosRealm
from tests.lab_security import PLAIN_WITHOUT_TLS

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.debian("krb5-kdc", "krb5-admin-server")]
CLIENT, SHORT_LIVED = "kraftwatch", "short-lived"
HOST = "c1.kraftwatch.invalid"
OTHER_SERVICE, OTHER_DOMAIN = "metadata", "quorum.kraftwatch.invalid"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with KerberosRealm(tmp_path_factory.mktemp("kerberos") / "realm") as started:
        started.add(CLIENT)
        started.add(SHORT_LIVED, lifetime="8 seconds")
        yield started


@pytest.fixture(scope="module")
def lab(realm: KerberosRealm, shared_lab: Callable[..., Lab]) -> Lab:
    """Starts one node with a listener for the usual service principal, and one for a principal that must be given."""
    started = shared_lab(
        controllers=0,
        combined=1,
        brokers=0,
        named=True,
        users=["monitor"],
        listeners=[
            PLAIN_WITHOUT_TLS,
            realm.listener("HOSTNAME", "SASL_SSL", f"kafka/{HOST}"),
            realm.listener("OTHER", "SASL_PLAINTEXT", f"{OTHER_SERVICE}/{OTHER_DOMAIN}"),
        ],
        java_options=realm.java_options,
    )
    started.allow_monitoring(*(f"User:{user}" for user in (CLIENT, SHORT_LIVED, "monitor")))
    return started


@pytest.fixture(scope="module")
def keytab(realm: KerberosRealm) -> Path:
    return realm.keytab("client.keytab", CLIENT)


def section(lab: Lab, listener: str, **more: Any) -> dict[str, Any]:
    return {
        "name": listener.lower(),
        "bootstrap": [endpoint_of(lab.node(1), listener)],
        "cluster_id": lab.cluster_id,
        "hosts_file": str(lab.hosts_file),
        "sasl_mechanism": "GSSAPI",
        **more,
    }


def by_host_name(lab: Lab, **more: Any) -> dict[str, Any]:
    return section(lab, "HOSTNAME", security_protocol="SASL_SSL", ssl_cafile=str(lab.security.ca_file), **more)


def by_other_name(lab: Lab) -> dict[str, Any]:
    names = {"sasl_kerberos_service_name": OTHER_SERVICE, "sasl_kerberos_domain_name": OTHER_DOMAIN}
    return section(lab, "OTHER", security_protocol="SASL_PLAINTEXT", **names)


def by_password(lab: Lab) -> dict[str, Any]:
    user = {"sasl_plain_username": "monitor", "sasl_plain_password": lab.security.passwords["monitor"]}
    return section(lab, "PLAIN", security_protocol="SASL_PLAINTEXT", **user, sasl_mechanism="PLAIN")


def config(folder: Path, section: Mapping[str, Any]) -> Path:
    file = folder / "kraftwatch.yaml"
    file.write_text(yaml.safe_dump({"clusters": [dict(section)]}))
    return file


def kraftwatch(environment: Mapping[str, str], verb: str, file: Path, *more: str) -> dict[str, Any]:
    """Runs a command on one cluster and returns its output."""
    ended = subprocess.run(
        [sys.executable, "-m", "streaming", verb, "--config", str(file), "--json", *more],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
    assert ended.stdout, ended.stderr
    output: dict[str, Any] = json.loads(ended.stdout)
    return output


@pytest.mark.parametrize("of", [by_host_name, by_other_name])
def test_log_and_polls_are_observed_with_a_ticket_and_doctor_reports_the_login(
    realm: KerberosRealm, lab: Lab, keytab: Path, tmp_path: Path, of: Callable[[Lab], dict[str, Any]]
) -> None:
    file, environment = config(tmp_path, of(lab)), realm.client_environment(keytab)

    def observed() -> None:
        # On a busy host the first probe of a node may get no answer in time.
        status = kraftwatch(environment, "status", file, "--timeout", "60")
        assert (status["missing"], status["unknown"]) == ([], [])
        assert "monitor-blind" not in {finding["rule"] for finding in status["findings"]}
        assert (status["leader_id"], [one["verdict"] for one in status["endpoints"]]) == (1, ["ok"])

    eventually(observed, within_s=60)
    checks = kraftwatch(environment, "doctor", file)["checks"]
    (login,) = {one["said"].partition(";")[0] for one in checks if one["check"] == "login"}
    assert login == "GSSAPI as the principal of the Kerberos ticket"
    assert not [one for one in checks if one["verdict"] == "fails"]


@pytest.fixture(scope="module")
def mistakes(
    realm: KerberosRealm, lab: Lab, keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, dict[str, Any]]:
    """Returns the output of `check` for each mistake."""
    good, right = realm.client_environment(keytab), by_host_name(lab)
    every: dict[str, tuple[Mapping[str, str], dict[str, Any]]] = {
        "no-ticket": (realm.client_environment(), right),
        "unknown-service": (good, {**right, "sasl_kerberos_service_name": "controller"}),
        "service-of-another-node": (good, section(lab, "OTHER", security_protocol="SASL_PLAINTEXT")),
    }

    def check(name: str) -> dict[str, Any]:
        environment, of = every[name]
        file = config(tmp_path_factory.mktemp(name), of)

        def checked() -> dict[str, Any]:
            found = kraftwatch(environment, "check", file, "--timeout", "6")
            failing = [each for finding in found["findings"] for each in finding["evidence"].get("failing", [])]
            # On a busy host an answer may be pending.
            assert {each["reason"] for each in failing} == {Reason.NOT_AUTHENTICATED.value}
            return found

        return eventually(checked, within_s=60)

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(every, pool.map(check, every), strict=True))


MISTAKES = {
    "no-ticket": f"no Kerberos ticket for kafka@{HOST}: No Kerberos credentials available",
    "unknown-service": f"no Kerberos ticket for controller@{HOST}: Server controller/{HOST}@{REALM} not found",
    "service-of-another-node": "the node rejected the login",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_reported_in_one_sentence(mistakes: Mapping[str, dict[str, Any]], name: str) -> None:
    one = mistakes[name]
    (blind,) = (finding for finding in one["findings"] if finding["rule"] == "monitor-blind")
    assert (one["health"], blind["severity"]) == ("unknown", "critical")
    assert MISTAKES[name] in blind["summary"]


def observed_at(gatherer: GathererRun, cluster: str, kind: ObservationKind, since_ms: int = 0) -> list[int]:
    rows = [row.observed_at_ms for row in gatherer.rows(kind) if row.cluster == cluster]
    return [at for at in rows if at >= since_ms]


def rejected_logins(gatherer: GathererRun, cluster: str) -> list[tuple[int, str]]:
    """Returns time and detail of each failed observation whose reason is the login."""
    return [(at, one.detail) for at, one in gatherer.failures(cluster) if one.reason is Reason.NOT_AUTHENTICATED]


def test_expired_tickets_are_renewed_and_a_kdc_that_hangs_delays_no_other_cluster(
    realm: KerberosRealm, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ticket is valid for eight seconds, and the listener requires a login every two seconds (KIP-368)."""
    environment = realm.client_environment(realm.keytab("short-lived.keytab", SHORT_LIVED))
    sections = (by_host_name(lab), by_password(lab))
    with monkeypatch.context() as process:
        for name, value in environment.items():
            process.setenv(name, value)
            if name == "PYTHONPATH":
                process.syspath_prepend(value.partition(os.pathsep)[0])
        kerberos, other = (load(config(tmp_path, one)).clusters[0].cluster() for one in sections)
        with run_gatherer(tmp_path, kerberos, other) as gatherer:
            eventually(lambda: realm.tickets_issued(SHORT_LIVED) >= 3, within_s=60)
            eventually(lambda: bool(observed_at(gatherer, kerberos.name, ObservationKind.RECORDS)), within_s=60)
            eventually(lambda: bool(observed_at(gatherer, kerberos.name, ObservationKind.QUORUM)), within_s=60)
            assert not rejected_logins(gatherer, kerberos.name)

            realm.pause()
            try:
                eventually(lambda: bool(rejected_logins(gatherer, kerberos.name)), within_s=60)
            finally:
                realm.resume()
            failed_ms, detail = rejected_logins(gatherer, kerberos.name)[0]
            assert detail == f"no Kerberos ticket for kafka@{HOST}: no answer from the KDC within 3 s"
            begun_ms = max(at for at in observed_at(gatherer, kerberos.name, ObservationKind.QUORUM) if at < failed_ms)
            meanwhile = observed_at(gatherer, other.name, ObservationKind.QUORUM, begun_ms)
            assert [at for at in meanwhile if at < failed_ms]

            eventually(
                lambda: bool(observed_at(gatherer, kerberos.name, ObservationKind.QUORUM, failed_ms)), within_s=60
            )
        assert not rejected_logins(gatherer, other.name)
