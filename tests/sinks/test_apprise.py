"""The Apprise sink: what its messages say."""

from pydantic import SecretStr

from connectors.sinks.apprise import AppriseSection, title
from rules.notifications.notification import single_alert_notification
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.unit.connectors.sinks.sink_alerts import alert

KINDS = [
    SinkKind(
        kind="apprise",
        section=lambda url, ca_file: AppriseSection(
            url=SecretStr(url.replace("https://", f"jsons://eva:{SECRET}@") + f"/{SECRET}")
        ),
        permanent=frozenset(),
        respects_retry_after=False,
    ),
]


def test_title_names_the_state_and_the_cluster() -> None:
    firing, resolved = (title(single_alert_notification(alert("quorum", resolved=each))) for each in (False, True))
    assert firing.startswith("CRITICAL alpha: ")
    assert resolved.startswith("RESOLVED alpha: ")


def test_name_has_no_secret() -> None:
    assert AppriseSection(url=SecretStr(f"tgram://{SECRET}/1")).default_name() == "apprise:tgram"
