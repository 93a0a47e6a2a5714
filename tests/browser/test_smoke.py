"""The page in a real browser: it loads without errors from its own host, follows its cluster, and shows past states."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from connectors.process.wall_clock import wall_ms
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from streaming.query.past_replay import PastReplay
from streaming.query.recording import open_journal, replayed
from streaming.replay.cluster_monitor import ALWAYS
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import back_test
from streaming.web.past_states import PastStates
from tests.browser.chromium import DESKTOP, PHONE, Browser, chromium
from tests.browser.page_fixture import PageFixture
from tests.browser.slack_picture import examples, to_html
from tests.eventually import eventually
from tests.unit.streaming.query.status_journal import AT
from tests.unit.streaming.report.recorded_incident import recording, written
from tests.unit.streaming.web.served_api import TOKEN, Served

pytestmark = [pytest.mark.debian("chromium", "chromium-driver"), pytest.mark.timeout(600)]

EVIL = '<img src=x onerror="window.injected=1">'
PATHS = ("/", "/clusters/calm", "/clusters/prod?span=15m", f"/clusters/{quote(EVIL)}", "/rules/stale-voter-endpoint")
WITHIN_S = 30
HEALTHY_MS, NOW_MS = AT + 20_000, AT + 125_000
"""The recording: a leader is elected at AT, and there is none from one minute later on."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with (
        tempfile.TemporaryDirectory(prefix="kraftwatch-chromium-", ignore_cleanup_errors=True) as profile,
        chromium(Path(profile)) as browser,
    ):
        yield browser


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageFixture]:
    with PageFixture(tmp_path_factory.mktemp("page"), ["calm", "prod", EVIL], changeable=True) as fixture:
        fixture[EVIL].topic(EVIL, {0: (101, 102)})
        fixture.pass_s(15)
        fixture[EVIL].kill(101)
        fixture[EVIL].change(EVIL, 0, (102,), recovering=True)
        fixture.pass_s(75)
        yield fixture


def load(browser: Browser, url: str, *, size: tuple[int, int], dark: bool = False) -> list[str]:
    """Opens a page or file, which has no errors and fits the screen; returns what it requests, from its own host."""
    browser.open(url, size=size, dark=dark)
    requests = browser.requests()
    assert browser.console_messages() == []
    assert {urlsplit(each).netloc for each in requests} == {urlsplit(url).netloc}
    assert browser.run("return document.documentElement.scrollWidth") == size[0]
    return requests


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)], ids=str)
def test_pages_load_from_their_own_host_without_errors_and_fit_the_screen(
    fixture: PageFixture, browser: Browser, size: tuple[int, int], dark: bool
) -> None:
    heights = list[float]()
    for path in PATHS:
        load(browser, fixture.url(path), size=size, dark=dark)
        assert "kraftwatch" in browser.title
        light = browser.run("return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g)[0] > 127")
        assert light is not dark
        assert browser.run("return [window.injected, document.querySelectorAll('main img').length]") == [None, 0]
        heights += browser.run(
            "return [...document.querySelectorAll('button, input, .button, .spans a, summary')]"
            ".filter((each) => each.offsetParent).map((each) => each.getBoundingClientRect().height)"
        )
    assert len(heights) > 10, "acknowledge, silence and copy are shown"
    assert size != PHONE or min(heights) >= 44, "a finger can press each button"


def test_a_name_with_markup_is_text_and_a_command_is_selected_as_it_is(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url(f"/clusters/{quote(EVIL)}"), size=PHONE)
    shown, selected = browser.run(
        "const code = document.querySelector('.command code'); getSelection().selectAllChildren(code);"
        "return [code.textContent, getSelection().toString()]"
    )
    assert EVIL in browser.text()
    assert shown.startswith("kafka-topics.sh --bootstrap-server ")
    assert selected == shown


def test_page_of_a_cluster_follows_it_without_a_reload(fixture: PageFixture, browser: Browser) -> None:
    browser.open(fixture.url("/clusters/prod"))
    browser.run("window.notReloaded = true; scrollTo(0, 300)")
    assert "No alert is firing" in browser.text()

    for node in (2, 3):
        fixture["prod"].kill(node)
    fixture.pass_s(20)
    eventually(lambda: browser.title.startswith("critical: prod"), within_s=WITHIN_S)
    assert "no metadata change is possible" in browser.text()
    assert browser.run("return scrollY") >= 300, "the scroll position stays although content is added above"

    fixture["prod"].start(2)
    fixture.pass_s(35)
    eventually(lambda: not browser.title.startswith("critical"), within_s=WITHIN_S)
    assert browser.run("return window.notReloaded")
    assert browser.console_messages() == []
    browser.run("const now = Date.now; Date.now = () => now() + 60000")
    eventually(lambda: "The job has not answered for" in browser.text("#lost"), within_s=WITHIN_S)


def test_timeline_shows_a_past_state_and_returns_to_live(browser: Browser, tmp_path: Path) -> None:
    journal = recording(tmp_path / "journal", cluster="a")
    cluster = ClusterSettings(name="a", thresholds=thresholds_for({}))
    with (
        PastStates(journal, lambda name: cluster if name == "a" else None) as past,
        PageFixture(tmp_path, ["a"], past=past) as fixture,
    ):
        fixture.now_ms = NOW_MS
        now = PastReplay(journal, cluster).state_at(Millis(NOW_MS)).shown.status
        fixture.store.put_status(now, at_ms=Millis(NOW_MS))
        read = replayed(open_journal(journal).rows(), lambda _: cluster, evaluates_from_ms=ALWAYS)
        alerts = list(back_test(read))
        fixture.store.put_delivery(DeliveryReport(recorded=1, sinks={}), lambda: alerts, at_ms=Millis(NOW_MS))
        load(browser, fixture.url("/clusters/a?span=15m"), size=DESKTOP)
        assert "no metadata change is possible" in browser.text()

        browser.run(
            "const slider = document.getElementById('at'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input', {bubbles: true}))",
            HEALTHY_MS,
        )
        eventually(
            lambda: "UTC, not live." in browser.text() and "No alert is firing" in browser.text(), within_s=WITHIN_S
        )
        assert "at=" in browser.url
        browser.run("document.getElementById('to-live').click()")
        eventually(lambda: "no metadata change is possible" in browser.text(), within_s=WITHIN_S)

        assert "at=" not in browser.url
        assert browser.console_messages() == []


def test_report_and_the_picture_of_slack_are_files_that_request_nothing(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal", cluster=EVIL)
    for text, html in ((EVIL, written(tmp_path).html), ("Acknowledged by ana", to_html(examples()))):
        place = tmp_path / "page.html"
        place.write_text(html, encoding="utf-8")
        assert load(browser, place.as_uri(), size=PHONE) == [place.as_uri()]
        assert text in browser.text("body")


def test_the_buttons_acknowledge_and_silence_with_the_login_of_the_browser(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        host = f"127.0.0.1:{served.port}"
        # The login stays in the address of the page.
        browser.open(f"http://any:{TOKEN}@{host}/clusters/prod")
        browser.run("window.prompt = () => 'Ana'")

        def press(button: str, shown: str) -> None:
            browser.run("document.querySelector(arguments[0]).click()", f".changes button[{button}]")
            eventually(lambda: check_shown(shown), within_s=WITHIN_S)

        def check_shown(text: str) -> None:
            assert text in browser.text("article.alert")

        press("data-acknowledge", "Acknowledged by Ana")
        assert served.acknowledged() == ["by Ana"]
        press("data-silence-rule", "Silenced by Ana until")
        (silence,) = served.changes.silences.read()
        assert (silence.cluster, silence.rule, silence.subject) == ("prod", "voter-lagging", "voter 2")
        press("data-end-silence", "Silence 1 h")
        eventually(lambda: check_not_silenced(served), within_s=WITHIN_S)
        press("data-unacknowledge", "Acknowledge")
        eventually(lambda: check_ended(served), within_s=WITHIN_S)


def check_not_silenced(served: Served) -> None:
    assert [one for one in served.changes.silences.read() if one.active(wall_ms())] == []


def check_ended(served: Served) -> None:
    assert served.acknowledged() == []
