"""`make screenshots`: makes the pictures in the documents, of the page from scripted quorums and of Slack."""

import tempfile
from dataclasses import replace
from pathlib import Path

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.route import Silence
from tests.browser.chromium import PHONE, Browser
from tests.browser.slack_picture import examples, to_html
from tests.page_fixture import PageFixture

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
FAULTY = ("prod-eu-1", "prod-us-2", "orders", "staging")
HEALTHY = (*(f"prod-ap-{number}" for number in range(1, 8)), *(f"edge-{number:03}" for number in range(1, 27)))


def play_scenario(fixture: PageFixture) -> None:
    """Plays twelve minutes: voter changes, a restart, a replaced disk, a broker that stops."""
    faulty = fixture["prod-eu-1"]
    fixture.pass_s(60)
    faulty.topic("orders", dict.fromkeys(range(12), (101, 102)))
    faulty.topic("payments", dict.fromkeys(range(6), (102, 103)))
    faulty.add_observer(4)
    fixture.pass_s(40)
    faulty.add(4)
    fixture["orders"].kill(3)
    fixture.pass_s(80)
    faulty.remove(4)
    faulty.kill(4)
    fixture.pass_s(90)
    faulty.kill(1)
    fixture.pass_s(40)
    faulty.start(1)
    fixture["staging"].log_denied = True
    fixture.pass_s(110)
    faulty.replace_disk(3, "newDirOf3")
    fixture.pass_s(60)
    faulty.kill(101)
    for number in range(7):
        faulty.change("orders", number, (102,), recovering=True)
    fixture["prod-us-2"].kill(2)
    fixture.pass_s(100)
    faulty.records.broker_change(103, fenced=False)
    fixture["orders"].kill(2)
    fixture.pass_s(140)


def add_clusters_sinks_and_silences(fixture: PageFixture) -> None:
    """Adds healthy clusters, sinks, a silence and an acknowledgement."""
    calm = fixture.store.newest("calm")
    assert calm is not None
    fixture.store.set_clusters([*FAULTY, *HEALTHY])
    for name in HEALTHY:
        fixture.store.put_status(replace(calm.status, cluster=name), at_ms=Millis(fixture.now_ms))
    delivery = fixture.store.delivery
    assert delivery is not None
    sinks = {
        "slack:#kafka-oncall": SinkResult(),
        "pagerduty": SinkResult(pending=2, failing="it answered 503 Service Unavailable"),
        "jsonl:/var/lib/kraftwatch/alerts.jsonl": SinkResult(),
    }
    history = delivery.history
    fixture.store.put_delivery(DeliveryReport(recorded=1, sinks=sinks), lambda: history, at_ms=Millis(fixture.now_ms))
    fixture.silences.append(
        Silence(
            id="7c1e09aa",
            cluster="prod-eu-1",
            rule="broker-fenced",
            starts_at_ms=Millis(fixture.now_ms - 300_000),
            ends_at_ms=Millis(fixture.now_ms + 5_400_000),
            author="ann",
            comment="disk swap on broker 101, CHG-1234",
        )
    )
    (replaced,) = (alert for alert in history if alert.rule == "voter-disk-replaced")
    fixture.acknowledgements.append(
        Acknowledgement(
            fingerprint=replaced.fingerprint,
            started_at_ms=replaced.started_at_ms,
            severity=replaced.severity,
            by="Ben",
            at_ms=Millis(fixture.now_ms - 90_000),
            comment="INC-2041",
        )
    )


def take_screenshots(fixture: PageFixture, browser: Browser, folder: Path) -> None:
    """Writes the screenshots, each at most 150 kB."""
    cluster = fixture.url("/clusters/prod-eu-1?span=15m")
    browser.open(fixture.url())
    browser.screenshot(folder / "page-fleet.webp", height=860)
    browser.open(cluster)
    browser.screenshot(folder / "page-cluster.webp", height=1290)
    browser.screenshot(folder / "page-timeline.webp", begin="#when", height=760)
    browser.open(cluster, dark=True)
    browser.screenshot(folder / "page-dark.webp", height=860)
    browser.open(cluster, size=PHONE, dark=True)
    browser.screenshot(folder / "page-phone.webp", height=1210)


def draw_slack(browser: Browser, page: Path, folder: Path) -> None:
    """Writes the pictures of Slack, by way of an HTML file."""
    page.write_text(to_html(examples()), encoding="utf-8")
    browser.open(page.as_uri(), size=(880, 900))
    browser.screenshot(folder / "slack.webp")
    browser.open(page.as_uri(), size=PHONE, dark=True)
    browser.screenshot(folder / "slack-phone.webp", height=740)


def main() -> None:
    """Makes all pictures."""
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        page_fixture = PageFixture(folder, [*FAULTY, "calm"], changeable=True)
        with page_fixture as fixture, Browser(folder / "profile") as browser:
            play_scenario(fixture)
            add_clusters_sinks_and_silences(fixture)
            take_screenshots(fixture, browser, DOCS)
            draw_slack(browser, folder / "slack.html", DOCS)


if __name__ == "__main__":
    main()
