"""The page in a real browser: it loads without errors from its own host, follows its cluster, and shows past states."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from connectors.process.wall_clock import wall_ms
from streaming.replay.cluster_settings import ClusterSettings
from streaming.web.past_states import PastStates
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.browser.slack_picture import examples, to_html
from tests.eventually import eventually
from tests.page_fixture import PageFixture
from tests.unit.streaming.query.status_journal import AT
from tests.unit.streaming.report.recorded_incident import recording, written
from tests.unit.streaming.web.served_api import TOKEN, Served

pytestmark = [pytest.mark.debian("chromium", "chromium-driver"), pytest.mark.timeout(600)]

EVIL = '<img src=x onerror="window.injected=1">'
PATHS = ("/", "/clusters/calm", "/clusters/prod?span=15m", "/rules/stale-voter-endpoint", f"/clusters/{quote(EVIL)}")
WITHIN_S = 30


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    folder = tempfile.TemporaryDirectory(prefix="kraftwatch-chromium-", ignore_cleanup_errors=True)
    with folder as profile, Browser(Path(profile)) as browser:
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


def load(browser: Browser, url: str, *, size: tuple[int, int], dark: bool = False) -> None:
    """Opens a page or a file: it has no errors, fits the screen, and requests nothing from another host."""
    browser.open(url, size=size, dark=dark)
    assert browser.console_messages() == []
    assert {urlsplit(each)[:2] for each in browser.requests()} <= {urlsplit(url)[:2]}
    assert browser.run("return document.documentElement.scrollWidth") == size[0]


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False)], ids=str)
def test_pages_load_from_their_own_host_without_errors_and_fit_the_screen(
    fixture: PageFixture, browser: Browser, size: tuple[int, int], dark: bool
) -> None:
    heights = list[float]()
    for path in PATHS:
        load(browser, fixture.url(path), size=size, dark=dark)
        assert browser.requests() != []
        assert "kraftwatch" in browser.title
        light = browser.run("return getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g)[0] > 127")
        assert light is not dark
        heights += browser.run(
            "return [...document.querySelectorAll('button, input, .button, .spans a, summary')]"
            ".filter((each) => each.offsetParent).map((each) => each.getBoundingClientRect().height)"
        )
    assert len(heights) > 10
    assert {"Acknowledge", "Silence 1 h", "Copy"} <= {*browser.text().split("\n")}
    assert size != PHONE or min(heights) >= 44, "a finger can press each button"

    assert EVIL in browser.text(), "the last page: markup in a name is text"
    injected, images, shown, selected = browser.run(
        "const code = document.querySelector('.command code'); getSelection().selectAllChildren(code);"
        "const images = document.querySelectorAll('main img').length;"
        "return [window.injected, images, code.textContent, getSelection().toString()]"
    )
    assert (injected, images) == (None, 0)
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
    past = PastStates(recording(tmp_path / "journal"), lambda name: ClusterSettings(name=name))
    with past, PageFixture(tmp_path, ["a"], past=past) as fixture:
        fixture.now_ms = AT + 110_000
        fixture.pass_s(15)
        load(browser, fixture.url("/clusters/a?span=15m"), size=DESKTOP)
        assert "not live" not in browser.text()

        browser.run(
            "const slider = document.getElementById('at'); slider.value = arguments[0];"
            "slider.dispatchEvent(new Event('input', {bubbles: true}))",
            AT + 20_000,
        )
        eventually(lambda: "UTC, not live." in browser.text(), within_s=WITHIN_S)
        assert "at=" in browser.current_url
        browser.run("document.getElementById('to-live').click()")
        eventually(lambda: "not live" not in browser.text(), within_s=WITHIN_S)

        assert "at=" not in browser.current_url
        assert browser.console_messages() == []


def test_report_and_the_picture_of_slack_are_files_that_request_nothing(tmp_path: Path, browser: Browser) -> None:
    recording(tmp_path / "journal", cluster=EVIL)
    for text, html in ((EVIL, written(tmp_path).html), ("Acknowledged by ana", to_html(examples()))):
        place = tmp_path / "page.html"
        place.write_text(html, encoding="utf-8")
        load(browser, place.as_uri(), size=PHONE)
        assert browser.requests() == []
        assert text in browser.text("body")


def test_the_buttons_acknowledge_and_silence_with_the_login_of_the_browser(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        # The login stays in the address of the page.
        browser.open(f"http://any:{TOKEN}@127.0.0.1:{served.port}/clusters/prod")
        browser.run("window.prompt = () => 'Ana'")

        def press(button: str, shown: str) -> None:
            browser.run("document.querySelector(arguments[0]).click()", f".changes button[{button}]")
            eventually(lambda: shown in browser.text("article.alert"), within_s=WITHIN_S)

        press("data-acknowledge", "Acknowledged by Ana")
        assert served.acknowledged() == ["by Ana"]
        press("data-silence-rule", "Silenced by Ana until")
        (silence,) = served.changes.silences.read()
        assert (silence.cluster, silence.rule, silence.subject) == ("prod", "voter-lagging", "voter 2")
        press("data-end-silence", "Silence 1 h")
        assert [one for one in served.changes.silences.read() if one.active(wall_ms())] == []
        press("data-unacknowledge", "Acknowledge")
        eventually(lambda: served.acknowledged() == [], within_s=WITHIN_S)
