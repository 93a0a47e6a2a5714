"""The configuration that all kinds of sinks share."""

from typing import Literal

from pydantic import Field, model_validator

from connectors.secret import Secret
from connectors.sinks.links import MessageLinks
from connectors.sinks.sink_config import SinkConfig, SinkSpec
from rules.finding import Severity
from rules.notifications.route import Route
from streaming.config.duration import Duration
from streaming.config.rule_filter import RuleFilter, Rules
from streaming.config.section import Section

_FILE = "_file"
_REPEAT_S = 4 * 3_600.0


class SinkSection(Section):
    """The keys of every kind of sink."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9#@][A-Za-z0-9#@._:/-]*$", max_length=100)
    """The name in the ledger; a renamed sink is notified again of firing alerts. Two sinks at one address need one."""
    min_severity: Severity = Severity.INFO
    """The lowest severity to send: `critical` for a pager. A sent alert is always resolved."""
    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """The clusters whose alerts are sent: names, or patterns with `*` and `?`."""
    rules: Rules = RuleFilter()
    """The rules whose alerts are sent: a list of ids or patterns, or `{include: […], exclude: […]}`; default: all."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "SinkSection":
        for key in type(self).model_fields:
            text = key.removesuffix(_FILE)
            if key != text and getattr(self, key) is not None and getattr(self, text, None) is not None:
                raise ValueError(f"give {text} or {key}, not both")
        return self

    def sink_spec(self, links: MessageLinks) -> SinkSpec:
        """Returns what the sink is opened with."""
        route = Route(
            min_severity=self.min_severity,
            clusters=self.clusters,
            rules=self.rules.include,
            excluded_rules=self.rules.exclude,
        )
        repeat_s = self.repeat if isinstance(self, PeopleSection) and self.repeat != "never" else None
        return SinkSpec(config=self.sink_config(), links=links, name=self.name, route=route, repeat_s=repeat_s)

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        raise NotImplementedError

    def secret(self, key: str) -> Secret | None:
        """Returns the secret of a key, given directly or as a file; None without one."""
        text, file = getattr(self, key), getattr(self, key + _FILE)
        if text is None and file is None:
            return None
        return Secret(text=None if text is None else text.get_secret_value(), file=file)

    def require(self, key: str) -> None:
        """Checks that the key or its file is given.

        Raises:
            ValueError: neither is.
        """
        if getattr(self, key) is None and getattr(self, key + _FILE) is None:
            raise ValueError(f"{key} (or {key}{_FILE}) is missing")


class PeopleSection(SinkSection):
    """The further keys of a sink for people."""

    repeat: Duration | Literal["never"] = _REPEAT_S
    """How long after a notification the same firing incident is sent again: a duration such as `4h`, or `never`."""
