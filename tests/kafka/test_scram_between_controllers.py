"""Controllers that log in to each other with SCRAM: the warning comes before all of them stop, and then it is right."""

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramMechanism

from deploy.lab.node import CONTROLLER
from rules.model.monitoring import Access
from tests.eventually import eventually
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitored_cluster_of
from tests.lab_security import ADMIN

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]
_PASSWORD = "planted-password"
_PLAIN, _SCRAM = "sasl.mechanism.controller.protocol=PLAIN", "sasl.mechanism.controller.protocol=SCRAM-SHA-512"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_REJECTED = "failed authentication"


def test_scram_as_the_only_login_between_controllers_is_a_warning_before_a_cold_start(
    lab: MakeLab, tmp_path: Path
) -> None:
    login = f'{_LOGIN_MODULE} required username="{ADMIN}" password="{_PASSWORD}";'
    quorum = lab(
        controllers=3,
        brokers=1,
        users=[],
        properties={
            f"listener.name.{CONTROLLER.lower()}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"listener.name.{CONTROLLER.lower()}.scram-sha-512.sasl.jaas.config": login,
        },
    )
    quorum.set_scram_password(ADMIN, _PASSWORD, ScramMechanism.SCRAM_SHA_512)
    security = quorum.security
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ADMIN,
        "sasl_plain_password": security.passwords[ADMIN],
    }
    with run_gatherer(tmp_path, cluster_of(quorum, options=options)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.monitor.settings = replace(monitor.monitor.settings, access=Access(protocol="SASL_SSL"))
        monitor.start_scenario({"scram-between-controllers.hold": 1})
        monitor.wait_for_quorum(lambda seen: {one.controller_login for one in seen.probes.values()} == {"PLAIN"})
        assert monitor.rules == set()

        for node in quorum.controllers:
            file = quorum.node(node).properties_file
            quorum.stop(node)
            file.write_text(file.read_text(encoding="utf-8").replace(_PLAIN, _SCRAM), encoding="utf-8")
            quorum.start(node)
            await_fetches_of_all_voters(quorum)
        alert = monitor.wait_for("scram-between-controllers", within_s=90)

        assert (alert.subject, alert.severity) == ("logins", "warning")
        assert "of 3 voters log in to the others with SCRAM-SHA-512" in alert.summary
        assert monitor.rules == {"scram-between-controllers"}

    logs = {node: quorum.node(node).log_file for node in quorum.controllers}
    quorum.kill(*quorum.controllers)
    ends = {node: file.stat().st_size for node, file in logs.items()}
    quorum.start(*quorum.controllers, wait=False)

    def each_rejects_the_others() -> None:
        assert quorum.state is None
        for node, file in logs.items():
            assert _REJECTED in file.read_bytes()[ends[node] :].decode().lower(), node

    eventually(each_rejects_the_others, within_s=60)
