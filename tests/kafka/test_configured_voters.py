"""controller.quorum.voters of a static quorum: different lists, and names in it that do not resolve."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from rules.alert import Alert
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitored_cluster_of

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]
SETTING = "controller.quorum.voters"


def test_a_controller_with_another_list_of_voters_is_named(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, static=True)
    different, left_out = quorum.followers
    file = quorum.node(different).properties_file
    whole = file.read_text(encoding="utf-8")
    (line,) = (each for each in whole.splitlines() if each.startswith(f"{SETTING}="))
    voters = line.partition("=")[2]
    fewer = ",".join(each for each in voters.split(",") if not each.startswith(f"{left_out}@"))
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"views-disagree.hold": 1})
        monitor.wait_for_quorum(lambda seen: any(one.quorum_voters == voters for one in seen.probes.values()))
        assert monitor.rules == set()

        quorum.stop(different)
        file.write_text(whole.replace(voters, fewer), encoding="utf-8")
        quorum.start(different)
        alert = monitor.wait_for("views-disagree", within_s=60)

        assert (alert.subject, alert.severity) == (SETTING, "warning")
        assert f"; {different} has {fewer}. Each counts votes by its own list." in alert.summary or (
            f": {different} has {fewer}; " in alert.summary
        )
        quorum.stop(different)
        file.write_text(whole, encoding="utf-8")
        quorum.start(different)
        monitor.wait_for("views-disagree", "resolved", within_s=90)
        await_fetches_of_all_voters(quorum)


def test_names_in_the_list_that_no_longer_resolve_are_reported(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, static=True, named=True)
    endpoints = {each: quorum.node(each).endpoint for each in quorum.controllers}
    names = {each: endpoint.rpartition(":")[0] for each, endpoint in endpoints.items()}
    lost, restarted = quorum.followers
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"stale-voter-endpoint.hold": 2})
        monitor.wait_for_quorum(lambda seen: len(seen.probes) == len(quorum.controllers))

        def fires(severity: str) -> Alert:
            alert = monitor.wait_for("stale-voter-endpoint")
            assert alert.severity == severity
            return alert

        def query(*verb: str) -> Result:
            options = ["--cluster", f"{NAME}={','.join(quorum.bootstrap)}", "--hosts-file", str(quorum.hosts_file)]
            return kraftwatch(*verb, *options)

        assert query("safe-to-restart", str(restarted)).exit_code == 0
        try:
            quorum.names.drop(names[lost])
            eventually(lambda: fires("warning"), within_s=60)
            unsafe, shown = query("safe-to-restart", str(restarted)), json.loads(query("status", "--json").stdout)
            quorum.names.drop(*names.values())
            alert = eventually(lambda: fires("critical"), within_s=60)
        finally:
            quorum.names.add(*names.values())

        assert (unsafe.exit_code, "is stale (name-gone" in unsafe.stdout) == (2, True), unsafe.stdout
        assert {one["id"]: (one["recorded"], one["verdict"]) for one in shown["endpoints"]} == {
            each: (endpoint, "stale" if each == lost else "ok") for each, endpoint in endpoints.items()
        }
        assert alert.evidence["configured_endpoint"] in endpoints.values()
        assert "no leader could be elected: 0 of 3 configured endpoints work." in alert.summary
        monitor.wait_for("stale-voter-endpoint", "resolved", within_s=60)
        assert monitor.rules == {"stale-voter-endpoint"}
