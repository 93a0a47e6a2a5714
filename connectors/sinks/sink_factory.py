"""Opening a sink: the one place that knows every kind."""

import sys
from dataclasses import replace
from pathlib import Path

from connectors.sinks.sink import Sink, Style, Terms
from connectors.sinks.sink_config import (
    Alertmanager,
    Apprise,
    Console,
    Jsonl,
    KafkaTopic,
    Pagerduty,
    SlackBot,
    SlackWebhook,
    Wanted,
    Webhook,
)


def open_sink(wanted: Wanted, *, memory: Path) -> Sink:
    """The sink that is wanted.

    Args:
        wanted: which kind, and where.
        memory: a folder beside the ledger, which is there once the first sink is told; a sink that must remember
            something has a file in it that is called after its name.

    Raises:
        UsageError: the place cannot be written, or what it needs cannot be read.
    """
    # Each kind brings a library of its own: only those that are wanted are imported.
    match wanted.place:
        case Console():
            from connectors.sinks.console import ConsoleSink

            return ConsoleSink(sys.stderr, terms=_terms(wanted, "console", Style.EACH))
        case Jsonl(path=path):
            from connectors.sinks.jsonl import JsonlSink

            return JsonlSink(path, terms=_terms(wanted, f"jsonl:{path.resolve()}", Style.EACH))
        case Webhook() as place:
            from connectors.sinks.webhook import WebhookSink, host_of

            return WebhookSink(
                place, terms=_terms(wanted, f"webhook:{host_of(place.url)}", Style.INCIDENTS), links=wanted.links
            )
        case Alertmanager() as place:
            from connectors.sinks.alertmanager import REPEAT_S, AlertmanagerSink
            from connectors.sinks.webhook import host_of

            often = replace(wanted, repeat_s=REPEAT_S)
            terms = _terms(often, f"alertmanager:{host_of(place.url)}", Style.INCIDENTS)
            return AlertmanagerSink(place, terms=terms, links=wanted.links)
        case SlackBot() as place:
            from connectors.sinks.slack import SlackSink

            terms = _terms(wanted, f"slack:{place.channel}", Style.INCIDENTS)
            return SlackSink(place, terms=terms, links=wanted.links, memory=memory)
        case SlackWebhook() as place:
            from connectors.sinks.slack import SlackWebhookSink

            return SlackWebhookSink(place, terms=_terms(wanted, "slack", Style.INCIDENTS), links=wanted.links)
        case Pagerduty() as place:
            from connectors.sinks.pagerduty import PagerdutySink

            return PagerdutySink(place, terms=_terms(wanted, "pagerduty", Style.INCIDENTS), links=wanted.links)
        case Apprise() as place:
            from connectors.sinks.apprise import AppriseSink, schema_of

            terms = _terms(wanted, f"apprise:{schema_of(place.url)}", Style.INCIDENTS)
            return AppriseSink(place, terms=terms, links=wanted.links)
        case KafkaTopic() as place:
            from connectors.sinks.kafka_topic import KafkaTopicSink

            name = f"kafka:{','.join(place.bootstrap)}/{place.topic}"
            return KafkaTopicSink(place, terms=_terms(wanted, name, Style.EACH))


def _terms(wanted: Wanted, name: str, style: Style) -> Terms:
    repeat_s = wanted.repeat_s if style is Style.INCIDENTS else None
    return Terms(name=wanted.name or name, style=style, repeat_s=repeat_s, route=wanted.route)
