"""The page in a real browser: what is seen of a fleet that is well and of one that is hurt, live, everywhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from streaming.status.cluster_status import portrait
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.browser.page_fixture import PageFixture
from tests.eventually import eventually
from tests.unit.rules.situation import healthy, recovering
from tests.unit.streaming.report.test_incident_report import recording, written

pytestmark = [pytest.mark.debian("chromium", "chromium-driver"), pytest.mark.timeout(600)]

EVIL = '<script>document.title="hurt"</script>'
EVIL_TOPIC = '"><img src=x onerror="window.hurt=1">\u202e'
WITHIN_S = 20
PARTITIONS = 3_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    """Four clusters: one is well all the time, the others are hurt by the tests, each by one of them."""
    with PageFixture(tmp_path_factory.mktemp("stage"), ["calm", "prod", EVIL]) as stage:
        stage.pass_s(15)
        yield stage


def test_a_healthy_quorum_is_seen_at_a_glance_and_nobody_else_is_asked(stage: PageFixture, browser: Browser) -> None:
    browser.open(stage.url())
    assert "3 healthy · kraftwatch" in browser.title
    browser.follow('a[href="/clusters/calm"]')
    seen = browser.text()
    for words in ("Healthy", "3 of 3 2 needed", "No alert is firing", "Leads to it", "nothing that is asked fails"):
        assert words in " ".join(seen.split())
    assert browser.complaints() == []
    assert browser.hosts() == {stage.host}


def test_what_happens_is_seen_without_loading_the_page_again(stage: PageFixture, browser: Browser) -> None:
    browser.open(stage.url("/clusters/prod?span=15m"))
    browser.run("window.notReloaded = true; document.getElementById('in-words').open = true; scrollTo(0, 300)")
    assert "No alert is firing" in browser.text()

    stage["prod"].stop(2)
    stage["prod"].stop(3)
    stage.pass_s(20)
    eventually(lambda: browser.title.startswith("critical: prod"), within_s=WITHIN_S)

    seen = browser.text()
    assert "No controller leads the metadata quorum" in seen
    assert "kafka-metadata-quorum.sh" in seen
    assert browser.run("return [window.notReloaded, document.getElementById('in-words').open]") == [True, True]
    assert browser.run("return scrollY") >= 300, "where one reads stays where it is, though more stands above it"
    code = browser.one(".command code")
    browser.run("arguments[0].focus()", code)
    stage["prod"].start(2)
    stage.pass_s(5)
    eventually(lambda: "no-leader" in browser.text() and "epoch 2" in browser.text(), within_s=WITHIN_S)
    assert browser.run("return document.activeElement === arguments[0]", code)

    stage.pass_s(30)
    eventually(lambda: not browser.title.startswith("critical"), within_s=WITHIN_S)
    assert "controller 1 was elected, epoch 2" in browser.text("#in-words")
    assert browser.complaints() == []


def test_a_command_is_copied_and_a_mark_says_what_it_was(stage: PageFixture, browser: Browser) -> None:
    stage["prod"].stop(1)
    stage.pass_s(130)
    browser.open(stage.url("/clusters/prod"))
    # It says so for a second and a half: whoever looks later sees it in what was noted.
    browser.run(
        "const button = document.querySelector('[data-copy]'); window.noted = [];"
        "new MutationObserver(() => noted.push(button.textContent)).observe(button, {childList: true})"
    )
    browser.one("[data-copy]").click()
    eventually(lambda: browser.run("return noted") == ["Copied", "Copy"], within_s=WITHIN_S)
    browser.run(
        "document.querySelector('.mark.election').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    assert "was elected" in browser.text("#pointed")
    assert "2026-11-20" in browser.text("#pointed")


def test_thousands_of_recovering_partitions_are_counted_found_and_do_not_flood_the_page(
    tmp_path: Path, browser: Browser
) -> None:
    with PageFixture(tmp_path, ["big"]) as stage:
        stage.pass_s(2)
        quorum = recovering(healthy(), *range(PARTITIONS), topic="huge")
        stage.fleet.show("big", portrait(quorum, thresholds_for({})), at_ms=Millis(stage.now_ms))
        browser.open(stage.url("/clusters/big"))
        assert f"Recovering partitions {PARTITIONS:,}".replace(",", "\u202f") in " ".join(browser.text().split(" "))
        assert len(browser.all(".partitions tbody tr")) == 100
        assert browser.run("return document.querySelectorAll('*').length") < 3_000
        browser.one("#topic").send_keys("huge-1234")
        eventually(lambda: len(browser.all(".partitions tbody tr")) == 1, within_s=WITHIN_S)
        assert browser.text(".partitions th[scope=row]") == "huge-1234"
        assert browser.one("#topic").get_attribute("value") == "huge-1234"
        assert browser.complaints() == []


def test_names_that_would_be_code_are_shown_as_they_are(stage: PageFixture, browser: Browser) -> None:
    world = stage[EVIL]
    world.topic(EVIL_TOPIC, {0: (101, 102)})
    world.nodes[2].host = "<b>c2</b>.test"
    stage.pass_s(2)
    world.stop(101)
    world.change(EVIL_TOPIC, 0, (102,), recovering=True)
    world.remove(2)
    stage.pass_s(1)
    world.add(2)
    stage.pass_s(75)

    browser.open(stage.url())
    browser.follow("main a[href^='/clusters/%3Cscript']")
    seen = browser.text()
    assert EVIL in seen
    assert '"><img src=x onerror="window.hurt=1">\\u202e' in seen
    assert "<b>c2</b>.test:9093" in seen
    assert browser.run("return [window.hurt, document.querySelectorAll('main img, main b, main script').length]") == [
        None,
        0,
    ]
    assert "hurt" not in browser.title.replace(EVIL, "")
    assert browser.complaints() == []


PATHS = ("/", "/clusters/calm", "/clusters/prod", "/rules", "/rules/stale-voter-endpoint")


@pytest.mark.parametrize("path", PATHS)
def test_a_phone_needs_no_scrolling_to_the_side(stage: PageFixture, browser: Browser, path: str) -> None:
    browser.open(stage.url(path), size=PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]
    assert browser.complaints() == []


def test_at_night_it_is_dark(stage: PageFixture, browser: Browser) -> None:
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    browser.open(stage.url(), dark=True)
    assert browser.run(ground) == "rgb(14, 18, 22)"
    browser.open(stage.url())
    assert browser.run(ground) == "rgb(244, 246, 248)"


def test_by_the_keyboard_alone_a_cluster_is_reached(stage: PageFixture, browser: Browser) -> None:
    browser.open(stage.url())
    reached: list[str] = []
    while "/clusters/calm" not in reached and len(reached) < 20:
        browser.press_tab()
        reached.append(browser.run("return document.activeElement.getAttribute('href') || document.activeElement.id"))
    assert reached[0] == "#main"
    assert "q" in reached
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_silence_is_said_where_it_hushes(stage: PageFixture, browser: Browser) -> None:
    silence = Silence(
        id="ab12cd34",
        cluster="prod",
        rule="no-*",
        starts_at_ms=Millis(stage.now_ms - 1_000),
        ends_at_ms=Millis(stage.now_ms + 3_600_000),
        author="ann",
        comment="disk swap, CHG-1",
    )
    stage.silences.append(silence)
    stage.pass_s(1)
    browser.open(stage.url("/clusters/prod"))
    assert "Silenced by ann until" in browser.text(".alert")
    assert "disk swap, CHG-1" in browser.text()


def test_thousands_of_clusters_are_all_named_and_one_is_found(
    tmp_path: Path, stage: PageFixture, browser: Browser
) -> None:
    names = [f"edge-{number:04}" for number in range(2_000)]
    seen = stage.fleet.seen("calm")
    assert seen is not None
    with PageFixture(tmp_path, []) as many:
        many.now_ms = stage.now_ms
        many.fleet.watch(names)
        for name in names[:-1]:
            many.fleet.show(name, seen.portrait, at_ms=Millis(many.now_ms))
        browser.open(many.url())
        html = requests.get(many.url(), timeout=60).text
        assert all(f"/clusters/{name}" in html for name in names)
        assert browser.text("tbody tr:first-child th") == "edge-1999", "the one that was never seen comes first"
        assert "1 unknown, 1999 healthy" in browser.title
        browser.one("#q").send_keys("edge-0042")
        eventually(lambda: len(browser.all(".clusters tbody tr")) == 1, within_s=WITHIN_S)
        assert browser.url.endswith("/?q=edge-0042")
        assert browser.complaints() == []


def test_without_a_script_it_is_the_same_page_that_loads_itself_again(stage: PageFixture, browser: Browser) -> None:
    with browser.without_scripts():
        browser.open(stage.url("/clusters/calm"), size=DESKTOP)
        html = requests.get(stage.url("/clusters/calm"), timeout=60).text
        assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in html
        assert "What is told" in browser.source


def test_a_foreign_name_that_leads_here_is_refused(stage: PageFixture, browser: Browser) -> None:
    browser.open(stage.url().replace("127.0.0.1", "evil.test"))
    assert "no such host here" in browser.text("body")


def test_a_job_that_answers_no_more_is_said(tmp_path: Path, browser: Browser) -> None:
    with PageFixture(tmp_path, ["gone"]) as stage:
        stage.pass_s(3)
        browser.open(stage.url())
        assert not browser.one("#lost").is_displayed()
    browser.run("const now = Date.now; Date.now = () => now() + 60000")
    eventually(lambda: "The job has not answered for" in browser.one("#lost").text, within_s=WITHIN_S)


def test_a_report_opens_from_the_disk_and_asks_nobody(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal", cluster=EVIL)
    place = tmp_path / "report.html"
    place.write_text(written(tmp_path).html)
    browser.open(place.as_uri())
    seen = browser.text()
    assert EVIL in seen
    assert "No controller leads the metadata quorum" in seen
    browser.one(".alert a[href='#rule-no-leader']").click()
    assert browser.one("#rule-no-leader h2").is_displayed(), "a link to a rule opens it"
    assert browser.requests() == [place.as_uri()]
    assert browser.complaints() == []
    browser.open(place.as_uri(), size=PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]


def test_on_paper_it_is_light_and_nothing_is_folded(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal")
    place = tmp_path / "report.html"
    place.write_text(written(tmp_path).html)
    browser.open(place.as_uri(), dark=True)
    assert "leader epoch" not in browser.text(".alert")
    with browser.on_paper():
        assert browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert "leader epoch" in browser.text(".alert")
        assert not browser.one(".copy").is_displayed()
