"""The ledger and Slack's message store of commit fae3086 are continued: every notification is sent once."""

from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.secret import Secret
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink_config import SinkSpec, SlackBot
from connectors.sinks.sink_factory import open_sink
from rules.model.identifiers import Millis
from streaming.pipeline.checkpoint import Checkpoint
from tests.sinks.server import serving
from tests.sinks.slack_double import ChannelMessage, SlackDouble
from tests.unit.connectors.sinks.sink_alerts import RecordingSink
from tests.unit.streaming.replay.stored_checkpoint import (
    CLUSTER_IDS,
    FIRST_MS,
    JSONL,
    SLACK,
    WEBHOOK,
    AlertFacts,
    expected,
    facts,
    observations,
    restored,
    rows,
    unpacked,
)

TOKEN = "xoxb-0123456789abcdef"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return unpacked(tmp_path)


def test_every_sink_receives_what_is_pending_and_nothing_else(checkpoint: Checkpoint) -> None:
    wanted: dict[str, list[AlertFacts]] = expected(checkpoint)["pending"]
    sinks = [RecordingSink(JSONL), RecordingSink(WEBHOOK)]
    dispatcher = Dispatcher(Ledger(checkpoint.ledger), sinks, deadline_s=30, patience_s=30)

    dispatcher.deliver((), Millis(FIRST_MS + 90_000))

    assert {sink.name: [facts(alert) for alert in sink.transitions] for sink in sinks} == {
        JSONL: wanted[JSONL],
        WEBHOOK: wanted[WEBHOOK],
    }


def test_alert_file_is_not_written_twice(checkpoint: Checkpoint) -> None:
    """The jsonl sink finds the alerts in its file by their keys."""
    path = checkpoint.folder / "alerts.jsonl"
    lines = path.read_bytes().splitlines()
    ledger = Ledger(checkpoint.ledger)
    # A new name in the ledger: everything that fires is sent to the sink again.
    ledger.add_sink("again")
    sink = JsonlSink(path, options=RecordingSink("again").options)
    dispatcher = Dispatcher(ledger, [sink], deadline_s=30, patience_s=30)
    dispatcher.deliver((), Millis(FIRST_MS + 90_000))

    assert path.read_bytes().splitlines()[: len(lines)] == lines
    assert len(path.read_bytes().splitlines()) == len(lines) + len(expected(checkpoint)["pending"][JSONL])


def test_slack_incidents_are_updated_and_not_posted_again(checkpoint: Checkpoint) -> None:
    posted = expected(checkpoint)["slack"]
    slack = SlackDouble(token=TOKEN, messages=[ChannelMessage(one["ts"], {}, one["thread_ts"]) for one in posted])
    stored = observations(checkpoint)
    incidents = {one["ts"] for one in posted if one["thread_ts"] is None}
    with serving() as server:
        server.behave = slack.reply
        config = SlackBot(channel="#kafka", token=Secret(text=TOKEN), api_url=f"{server.url}/api/")
        ledger = Ledger(checkpoint.ledger)
        sink = open_sink(SinkSpec(config=config), state_folder=checkpoint.folder)
        assert sink.options.name == SLACK
        dispatcher = Dispatcher(ledger, [sink], deadline_s=30, patience_s=30)
        pending = {(alert.rule, alert.subject) for alert in ledger.pending(SLACK)}
        dispatcher.deliver((), Millis(FIRST_MS + 90_000))
        first = [message for message in slack.channel_messages if message.ts not in incidents]
        later = [
            alert
            for cluster in CLUSTER_IDS
            for alert in restored(checkpoint, cluster).observe(rows(stored, cluster))
            if alert.state.value == "resolved"
        ]
        for seconds, alert in enumerate(later, 91):
            dispatcher.deliver([alert], Millis(FIRST_MS + 1_000 * seconds))
        # Minor changes of an open incident are sent at most once a minute.
        dispatcher.deliver((), Millis(FIRST_MS + 240_000))

    assert slack.invalid == []
    assert len(first) <= len(pending), "only incidents of pending alerts are posted"
    assert len([message for message in slack.channel_messages if message.ts not in incidents]) == len(first)
    edited = [message for message in slack.messages if message.ts in incidents and message.edits]
    assert any("RESOLVED" in message.body["text"] for message in edited)
    assert not ledger.pending(SLACK)
