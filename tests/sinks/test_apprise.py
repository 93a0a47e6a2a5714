"""The Apprise sink: what its messages say."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from connectors.errors import UsageError
from connectors.sinks.apprise import AppriseSection, title
from connectors.sinks.sink_config import MessageLinks
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
        any_answer_accepts=True,
    ),
]


def test_title_names_the_state_and_the_cluster() -> None:
    firing, resolved = (title(single_alert_notification(alert("quorum", resolved=each))) for each in (False, True))
    assert firing.startswith("CRITICAL alpha: ")
    assert resolved.startswith("RESOLVED alpha: ")


def test_name_has_no_secret() -> None:
    assert AppriseSection(url=SecretStr(f"tgram://{SECRET}/1")).default_name() == "apprise:tgram"


@pytest.mark.parametrize("name", [None, "telegram"])
@pytest.mark.parametrize("token", [SECRET, f"bot{SECRET}:AAF"])
def test_a_token_in_place_of_the_url_is_not_shown(token: str, name: str | None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="url is not an Apprise URL: write SCHEMA://") as raised:
        AppriseSection(url=SecretStr(token), name=name).open(MessageLinks(), tmp_path)
    assert SECRET[:8] not in str(raised.value)
