"""`make screenshots`: the pictures of the page in the documents, of quorums in miniature that were hurt for them."""

import tempfile
from pathlib import Path

from connectors.delivery.dispatcher import Report, Tally
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from tests.browser.chromium import PHONE, Browser, chromium
from tests.browser.page_fixture import Stage

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
HURT = ("prod-eu-1", "prod-us-2", "orders", "staging")
CALM = (*(f"prod-ap-{number}" for number in range(1, 8)), *(f"edge-{number:03}" for number in range(1, 27)))


def story(stage: Stage) -> None:
    """Twelve minutes: a voter set that is changed, a restart, a disk that is replaced, a broker that dies."""
    hurt = stage["prod-eu-1"]
    stage.pass_s(60)
    hurt.topic("orders", dict.fromkeys(range(12), (101, 102)))
    hurt.topic("payments", dict.fromkeys(range(6), (102, 103)))
    hurt.observe(4)
    stage.pass_s(40)
    hurt.add(4)
    stage["orders"].stop(3)
    stage.pass_s(80)
    hurt.remove(4)
    hurt.stop(4)
    stage.pass_s(90)
    hurt.stop(1)
    stage.pass_s(40)
    hurt.start(1)
    stage["staging"].log_denied = True
    stage.pass_s(110)
    hurt.wipe(3, "newDirOf3")
    stage.pass_s(60)
    hurt.stop(101)
    for number in range(7):
        hurt.change("orders", number, (102,), recovering=True)
    stage["prod-us-2"].stop(2)
    stage.pass_s(100)
    hurt.unfence(103)
    stage["orders"].stop(2)
    stage.pass_s(140)


def shown(stage: Stage) -> None:
    """The rest of the fleet, who is told, and what is silenced."""
    calm = stage.fleet.seen("calm")
    assert calm is not None
    stage.fleet.watch([*HURT, *CALM])
    for name in CALM:
        stage.fleet.show(name, calm.portrait, at_ms=Millis(stage.now_ms))
    told = stage.fleet.told
    assert told is not None
    sinks = {
        "slack:#kafka-oncall": Tally(),
        "pagerduty": Tally(pending=2, failing="it answered 503 Service Unavailable"),
        "jsonl:/var/lib/kraftwatch/alerts.jsonl": Tally(),
    }
    history = told.history
    stage.fleet.tell(Report(recorded=1, sinks=sinks), lambda: history, at_ms=Millis(stage.now_ms))
    stage.silences.append(
        Silence(
            id="7c1e09aa",
            cluster="prod-eu-1",
            rule="broker-fenced",
            starts_at_ms=Millis(stage.now_ms - 300_000),
            ends_at_ms=Millis(stage.now_ms + 5_400_000),
            author="ann",
            comment="disk swap on broker 101, CHG-1234",
        )
    )


def pictures(stage: Stage, browser: Browser, folder: Path) -> None:
    """Each at most 150 kB."""
    cluster = stage.url("/clusters/prod-eu-1?span=15m")
    browser.open(stage.url())
    browser.screenshot(folder / "page-fleet.webp", height=860)
    browser.open(cluster)
    browser.screenshot(folder / "page-cluster.webp", height=1500)
    browser.screenshot(folder / "page-timeline.webp", begin="#when", height=760)
    browser.open(cluster, dark=True)
    browser.screenshot(folder / "page-dark.webp", height=860)
    browser.open(cluster, size=PHONE, dark=True)
    browser.screenshot(folder / "page-phone.webp", height=1200)


def main() -> None:
    """Draw them."""
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Stage(folder, [*HURT, "calm"]) as stage, chromium(folder / "profile") as browser:
            story(stage)
            shown(stage)
            pictures(stage, browser, DOCS)


if __name__ == "__main__":
    main()
