"""The timeline shows past states in a real browser: by slider, keyboard, list and pointer, and back to live."""

from collections.abc import Iterator

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import back_test
from streaming.status.past_replay import PastReplay
from streaming.status.recording import open_journal
from streaming.web.past_states import PastStates
from tests.browser.chromium import Browser
from tests.browser.page_fixture import PageFixture
from tests.eventually import eventually
from tests.unit.streaming.report.test_incident_report import recording
from tests.unit.streaming.status.test_from_journal import AT

pytestmark = [pytest.mark.debian("chromium", "chromium-driver"), pytest.mark.timeout(600)]

NAME = "a"
WITHIN_S = 30
HEALTHY_MS, LEADERLESS_MS, NOW_MS = AT + 20_000, AT + 100_000, AT + 125_000
"""The recording: a leader is elected at AT, and there is none from one minute later on."""
PATH = f"/clusters/{NAME}?span=15m"
CLUSTER = ClusterSettings(name=NAME, thresholds=thresholds_for({}))


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    """The recorded cluster; its present state is the end of the recording."""
    folder = tmp_path_factory.mktemp("past")
    journal = recording(folder / "journal", cluster=NAME)
    with (
        PastStates(journal, lambda name: CLUSTER if name == NAME else None) as past,
        PageFixture(folder, [NAME], past=past) as fixture,
    ):
        fixture.now_ms = NOW_MS
        present = PastReplay(journal, CLUSTER).state_at(Millis(NOW_MS)).shown.status
        fixture.store.put_status(present, at_ms=Millis(NOW_MS))
        settings = CLUSTER
        alerts = list(back_test(open_journal(journal).rows(), lambda _: settings))
        fixture.store.put_delivery(DeliveryReport(recorded=1, sinks={}), lambda: alerts, at_ms=Millis(NOW_MS))
        yield fixture


def show_live(fixture: PageFixture, browser: Browser, size: tuple[int, int] = (1280, 900)) -> None:
    browser.open(fixture.url(PATH), size=size)
    assert "no metadata change is possible" in browser.text()
    assert "now (live)" in browser.text("#scrub")


def choose(browser: Browser, ms: int) -> None:
    """Moves the slider as a pointer does."""
    browser.run(
        "const slider = document.getElementById('at'); slider.value = arguments[0];"
        "slider.dispatchEvent(new Event('input', {bubbles: true}))",
        ms,
    )


def press(browser: Browser, selector: str) -> None:
    """Clicks an element, wherever it is on the page."""
    browser.run("document.querySelector(arguments[0]).click()", selector)


def banner(browser: Browser) -> str:
    text: str = browser.run("const found = document.getElementById('past'); return found ? found.innerText : ''")
    return text


def shows(browser: Browser, *, leader: bool) -> bool:
    return banner(browser) != "" and ("No alert is firing" in browser.text("main")) is leader


def test_slider_shows_past_states_and_returns_to_live(fixture: PageFixture, browser: Browser) -> None:
    show_live(fixture, browser)
    browser.run("window.notReloaded = true; scrollTo(0, 300)")
    choose(browser, HEALTHY_MS)
    eventually(lambda: shows(browser, leader=True), within_s=WITHIN_S)

    assert "UTC, not live." in banner(browser)
    assert banner(browser).startswith("As of 20")
    assert "at=" in browser.url
    assert browser.run("return scrollY") >= 300, "the page does not jump"
    assert "Healthy" in browser.text(".title") or "Unknown" in browser.text(".title")

    choose(browser, LEADERLESS_MS)
    eventually(lambda: shows(browser, leader=False), within_s=WITHIN_S)
    assert "First observed 40 s ago" in browser.text(), "ages are relative to the time that is shown"

    press(browser, "#to-live")
    eventually(lambda: banner(browser) == "", within_s=WITHIN_S)
    assert "at=" not in browser.url
    assert browser.run("return document.getElementById('main').dataset.live") is not None
    assert browser.run("return window.notReloaded")
    browser.run("history.back()")
    eventually(lambda: shows(browser, leader=False), within_s=WITHIN_S)
    assert browser.console_messages() == []
    assert browser.hosts() == {fixture.host}


def test_event_of_the_list_and_place_on_the_timeline_are_chosen_by_pointer(
    fixture: PageFixture, browser: Browser
) -> None:
    show_live(fixture, browser)
    browser.run("document.getElementById('as-list').open = true")
    press(browser, "#earlier")
    eventually(lambda: banner(browser) != "", within_s=WITHIN_S)
    before = browser.url
    press(browser, "#as-list tr:last-child a[data-at]")
    eventually(lambda: browser.url != before and banner(browser) != "", within_s=WITHIN_S)
    first = browser.url

    clicked = """
      const svg = document.querySelector('.timeline svg'), box = svg.getBoundingClientRect();
      svg.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: box.left + box.width * arguments[0]}));
    """
    browser.run(clicked, 1 - (NOW_MS - LEADERLESS_MS) / 900_000)
    eventually(lambda: browser.url != first and shows(browser, leader=False), within_s=WITHIN_S)
    assert browser.console_messages() == []


def test_page_of_a_past_state_does_not_move_on(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url(f"{PATH}&at={HEALTHY_MS}"))
    eventually(lambda: shows(browser, leader=True), within_s=WITHIN_S)
    text = browser.text()
    requests_before = len(browser.requests())
    browser.run("const now = Date.now; Date.now = () => now() + 60000")
    browser.run("document.dispatchEvent(new Event('visibilitychange'))")
    assert not browser.one("#lost").is_displayed()
    assert browser.text() == text
    assert requests_before > 0
    assert browser.requests() == []


def test_time_that_is_not_held_is_reported_on_the_page(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url(f"{PATH}&at=2001-01-01T00:00:00Z"))
    assert "the journal holds 20" in browser.text("#no-past-state")
    press(browser, "#to-live")
    eventually(lambda: "no metadata change is possible" in browser.text(), within_s=WITHIN_S)
