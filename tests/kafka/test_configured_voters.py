"""Controllers of a static quorum with different controller.quorum.voters: each counts votes by its own list."""

from pathlib import Path

import pytest

from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
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
