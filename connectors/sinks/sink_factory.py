"""Opens sinks. A new kind of sink is one function and one entry of `_OPENERS`."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from connectors.sinks.address_checks import check_alertmanager_url
from connectors.sinks.sink import DeliveryMode, DeliveryOptions, Sink
from connectors.sinks.sink_config import (
    Alertmanager,
    Apprise,
    Console,
    Jsonl,
    KafkaTopic,
    Pagerduty,
    SinkSpec,
    SlackBot,
    SlackWebhook,
    Webhook,
)

# Each kind needs its own library: the functions import it, so that only the configured ones are loaded.


def open_sink(spec: SinkSpec, *, state_folder: Path) -> Sink:
    """Opens a sink.

    Args:
        spec: the kind, the destination and the common options.
        state_folder: a folder beside the ledger, which exists once the first notification is sent. A sink that
            keeps state has a file in it that is named after the sink.

    Raises:
        UsageError: the destination cannot be written, or a file of the config cannot be read.
    """
    return _OPENERS[type(spec.config)](spec.config, spec, state_folder)


def _console(config: Console, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.console import ConsoleSink

    return ConsoleSink(sys.stderr, options=_record(spec, "console"))


def _jsonl(config: Jsonl, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.jsonl import JsonlSink

    return JsonlSink(config.path, options=_record(spec, f"jsonl:{config.path.resolve()}"))


def _webhook(config: Webhook, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.webhook import WebhookSink, host_of

    return WebhookSink(config, options=_people(spec, f"webhook:{host_of(config.url)}"), links=spec.links)


def _alertmanager(config: Alertmanager, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.alertmanager import REPEAT_S, AlertmanagerSink
    from connectors.sinks.webhook import host_of

    check_alertmanager_url(config.url)
    options = _people(replace(spec, repeat_s=REPEAT_S), f"alertmanager:{host_of(config.url)}")
    return AlertmanagerSink(config, options=options, links=spec.links)


def _slack_bot(config: SlackBot, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.slack import SlackSink

    options = _people(spec, f"slack:{config.channel}")
    return SlackSink(config, options=options, links=spec.links, state_folder=state_folder)


def _slack_webhook(config: SlackWebhook, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.slack import SlackWebhookSink

    return SlackWebhookSink(config, options=_people(spec, "slack"), links=spec.links)


def _pagerduty(config: Pagerduty, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.pagerduty import PagerdutySink

    options = _people(spec, "pagerduty")
    return PagerdutySink(config, options=options, links=spec.links, state_folder=state_folder)


def _apprise(config: Apprise, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.apprise import AppriseSink, schema_of

    return AppriseSink(config, options=_people(spec, f"apprise:{schema_of(config.url)}"), links=spec.links)


def _kafka_topic(config: KafkaTopic, spec: SinkSpec, state_folder: Path) -> Sink:
    from connectors.sinks.kafka_topic import KafkaTopicSink

    return KafkaTopicSink(config, options=_record(spec, f"kafka:{','.join(config.bootstrap)}/{config.topic}"))


_Opener: TypeAlias = Callable[[Any, SinkSpec, Path], Sink]
_OPENERS: Mapping[type, _Opener] = {
    Console: _console,
    Jsonl: _jsonl,
    Webhook: _webhook,
    Alertmanager: _alertmanager,
    SlackBot: _slack_bot,
    SlackWebhook: _slack_webhook,
    Pagerduty: _pagerduty,
    Apprise: _apprise,
    KafkaTopic: _kafka_topic,
}


def _record(spec: SinkSpec, default_name: str) -> DeliveryOptions:
    """Returns the options of a sink that keeps a record: it gets each transition and repeats nothing."""
    return DeliveryOptions(name=spec.name or default_name, mode=DeliveryMode.TRANSITIONS, route=spec.route)


def _people(spec: SinkSpec, default_name: str) -> DeliveryOptions:
    """Returns the options of a sink that notifies people."""
    return DeliveryOptions(
        name=spec.name or default_name, mode=DeliveryMode.INCIDENTS, repeat_s=spec.repeat_s, route=spec.route
    )
