"""Python runs this module at the start of every process of a campaign's job: its folder is on their PYTHONPATH."""

import os

if "KRAFTWATCH_KILL_CAMPAIGN" in os.environ:
    from pathlib import Path

    from tests.kill_campaign.instrumentation import install

    install(Path(os.environ["KRAFTWATCH_KILL_CAMPAIGN"]))
