"""Two kills of the real job over a recording; `make kill-campaign` does many more."""

from pathlib import Path

import pytest

from tests.kill_campaign.campaign import Campaign
from tests.kill_campaign.delivery_check import ExecutedKill
from tests.kill_campaign.kill_order import KillOrder
from tests.kill_campaign.kill_point import Role

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

KILLS = (
    KillOrder(number=1, point="after journal publication", victim=Role.GATHERER, call=2, while_starting=True),
    KillOrder(number=2, point="after Slack post", victim=Role.GROUP),
)


def test_a_killed_job_has_the_transitions_of_a_replay_and_notifies_of_each_once(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=5, count=len(KILLS), kills=KILLS)
    kills: list[ExecutedKill] = []

    result = campaign.run(kills.append)

    assert list(result.problems) == []
    assert result.found == result.expected > 50
    assert [kill.at for kill in kills] == ["after journal publication", "after Slack post"]
    assert result.starts == 2
