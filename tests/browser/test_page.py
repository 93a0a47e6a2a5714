"""The page in a real browser: healthy and faulty clusters, live updates, phone, dark mode, keyboard, report."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from streaming.status.build_status import job_cluster_status
from tests.browser.chromium import PHONE, Browser
from tests.browser.page_fixture import PageFixture
from tests.eventually import eventually
from tests.unit.rules.situation import healthy, recovering
from tests.unit.streaming.report.test_incident_report import recording, written

pytestmark = [pytest.mark.debian("chromium", "chromium-driver"), pytest.mark.timeout(600)]

LONG = "migration-of-production-in-europe-west"
EVIL = '<script>document.title="injected"</script>'
EVIL_TOPIC = '"><img src=x onerror="window.injected=1">\u202e'
WITHIN_S = 20
PARTITIONS = 3_000


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    """Three clusters: one stays healthy, the tests inject faults into the others."""
    with PageFixture(tmp_path_factory.mktemp("page"), ["calm", "prod", LONG, EVIL]) as fixture:
        fixture.pass_s(15)
        yield fixture


def test_healthy_cluster_loads_nothing_from_other_hosts(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url())
    assert "4 healthy · kraftwatch" in browser.title
    browser.follow('a[href="/clusters/calm"]')
    text = browser.text()
    for expected in ("Healthy", "3 of 3 2 needed", "No alert is firing", "Reachable", "no data source fails"):
        assert expected in " ".join(text.split())
    assert browser.console_messages() == []
    assert browser.hosts() == {fixture.host}


def test_page_updates_without_a_reload(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url("/clusters/prod?span=15m"))
    browser.run("window.notReloaded = true; document.getElementById('as-list').open = true; scrollTo(0, 300)")
    assert "No alert is firing" in browser.text()

    fixture["prod"].stop(2)
    fixture["prod"].stop(3)
    fixture.pass_s(20)
    eventually(lambda: browser.title.startswith("critical: prod"), within_s=WITHIN_S)

    text = browser.text()
    assert "no metadata change is possible" in text
    assert "kafka-metadata-quorum.sh" in text
    assert browser.run("return [window.notReloaded, document.getElementById('as-list').open]") == [True, True]
    assert browser.run("return scrollY") >= 300, "the scroll position stays although content is added above"
    code = browser.one(".command code")
    browser.run("arguments[0].focus()", code)
    fixture["prod"].start(2)
    fixture.pass_s(5)
    eventually(lambda: "no-leader" in browser.text() and "epoch 2" in browser.text(), within_s=WITHIN_S)
    assert browser.run("return document.activeElement === arguments[0]", code)

    fixture.pass_s(30)
    eventually(lambda: not browser.title.startswith("critical"), within_s=WITHIN_S)
    assert "controller 1 was elected, epoch 2" in browser.text("#as-list")
    assert browser.console_messages() == []


def test_copy_button_and_text_of_a_timeline_mark(fixture: PageFixture, browser: Browser) -> None:
    fixture["prod"].stop(1)
    fixture.pass_s(130)
    browser.open(fixture.url("/clusters/prod"))
    # The button shows "Copied" for 1.5 s only, so its texts are recorded.
    browser.run(
        "const button = document.querySelector('[data-copy]'); window.buttonTexts = [];"
        "new MutationObserver(() => buttonTexts.push(button.textContent)).observe(button, {childList: true})"
    )
    browser.one("[data-copy]").click()
    eventually(lambda: browser.run("return buttonTexts") == ["Copied", "Copy"], within_s=WITHIN_S)
    browser.run(
        "document.querySelector('.mark.election').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    assert "was elected" in browser.text("#pointed")
    assert "2026-11-20" in browser.text("#pointed")


def test_thousands_of_recovering_partitions_are_counted_and_searchable(tmp_path: Path, browser: Browser) -> None:
    with PageFixture(tmp_path, ["big"]) as fixture:
        fixture.pass_s(2)
        quorum = recovering(healthy(), *range(PARTITIONS), topic="huge")
        status = replace(job_cluster_status(quorum, thresholds_for({})), cluster="big")
        fixture.store.put_status(status, at_ms=Millis(fixture.now_ms))
        browser.open(fixture.url("/clusters/big"))
        assert f"Recovering partitions {PARTITIONS:,}".replace(",", "\u202f") in " ".join(browser.text().split(" "))
        assert len(browser.all(".partitions tbody tr")) == 100
        assert browser.run("return document.querySelectorAll('*').length") < 3_000
        browser.one("#topic").send_keys("huge-1234")
        eventually(lambda: len(browser.all(".partitions tbody tr")) == 1, within_s=WITHIN_S)
        assert browser.text(".partitions th[scope=row]") == "huge-1234"
        assert browser.one("#topic").get_attribute("value") == "huge-1234"
        assert browser.console_messages() == []


def test_names_with_markup_are_shown_as_text(fixture: PageFixture, browser: Browser) -> None:
    quorum = fixture[EVIL]
    quorum.topic(EVIL_TOPIC, {0: (101, 102)})
    quorum.nodes[2].host = "<b>c2</b>.test"
    fixture.pass_s(2)
    quorum.stop(101)
    quorum.change(EVIL_TOPIC, 0, (102,), recovering=True)
    quorum.remove(2)
    fixture.pass_s(1)
    quorum.add(2)
    fixture.pass_s(75)

    browser.open(fixture.url())
    browser.follow("main a[href^='/clusters/%3Cscript']")
    text = browser.text()
    assert EVIL in text
    assert '"><img src=x onerror="window.injected=1">\\u202e' in text
    assert "<b>c2</b>.test:9093" in text
    assert browser.run(
        "return [window.injected, document.querySelectorAll('main img, main b, main script').length]"
    ) == [
        None,
        0,
    ]
    assert "injected" not in browser.title.replace(EVIL, "")
    assert browser.console_messages() == []


PATHS = ("/", "/clusters/calm", "/clusters/prod", "/rules", "/rules/stale-voter-endpoint")


BROKEN_WORDS = """
const broken = [];
const widthOf = (text, start, end) => {
  const range = document.createRange();
  range.setStart(text, start);
  range.setEnd(text, end);
  return [...range.getClientRects()].reduce((sum, each) => sum + each.width, 0);
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let text; (text = texts.nextNode());) {
  const parent = text.parentElement;
  if (parent.closest("code, .key, pre, script, style, svg, .quiet, .skip") || !parent.checkVisibility()) continue;
  for (const word of text.data.matchAll(/[\\p{L}\\p{N}]{3,}/gu)) {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const lines = [...range.getClientRects()].filter((each) => each.width > 0);
    // A longer word does not fit on a line, and one without spaces around it may be part of such a word.
    const start = text.data.slice(0, word.index).search(/\\S*$/);
    const end = word.index + text.data.slice(word.index).search(/\\s|$/);
    const fits = widthOf(text, start, end) < innerWidth - 60;
    if (fits && new Set(lines.map((each) => Math.round(each.top))).size > 1) broken.push(word[0]);
  }
}
return broken;
"""


@pytest.mark.parametrize("size", [PHONE, (390, 844)], ids=["360", "390"])
@pytest.mark.parametrize("path", (*PATHS, f"/clusters/{LONG}"))
def test_page_fits_a_phone_and_no_word_is_broken_into_letters(
    fixture: PageFixture, browser: Browser, path: str, size: tuple[int, int]
) -> None:
    browser.open(fixture.url(path), size=size)
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    assert browser.run(BROKEN_WORDS) == []
    assert browser.console_messages() == []
    header = browser.run("return document.querySelector('header.top').getBoundingClientRect().height")
    assert header <= 120, "the header takes at most three lines"


def test_page_reports_that_the_job_does_not_answer(tmp_path: Path, browser: Browser) -> None:
    with PageFixture(tmp_path, ["prod"]) as fixture:
        fixture.pass_s(3)
        browser.open(fixture.url())
        assert not browser.one("#lost").is_displayed()
    browser.run("const now = Date.now; Date.now = () => now() + 60000")
    eventually(lambda: "The job has not answered for" in browser.one("#lost").text, within_s=WITHIN_S)


def test_report_opens_from_a_file_and_requests_nothing(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal", cluster=EVIL)
    place = tmp_path / "report.html"
    place.write_text(written(tmp_path).html)
    browser.open(place.as_uri())
    text = browser.text()
    assert EVIL in text
    assert "no metadata change is possible" in text
    browser.one(".alert a[href='#rule-no-leader']").click()
    assert browser.one("#rule-no-leader h2").is_displayed(), "a link to a rule opens it"
    assert browser.requests() == [place.as_uri()]
    assert browser.console_messages() == []
    browser.open(place.as_uri(), size=PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]


def test_print_is_light_and_shows_folded_evidence(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal")
    place = tmp_path / "report.html"
    place.write_text(written(tmp_path).html)
    browser.open(place.as_uri(), dark=True)
    assert "leader epoch" not in browser.text(".alert")
    with browser.on_paper():
        assert browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert "leader epoch" in browser.text(".alert")
        assert not browser.one(".copy").is_displayed()
