"""What every kind of sink takes."""

from typing import Literal

from pydantic import Field, model_validator

from connectors.secret import Secret
from connectors.sinks.links import Links
from connectors.sinks.sink_config import Place, Wanted
from rules.finding import Severity
from rules.notifications.route import Route
from streaming.config.section import Duration, Section

_FILE = "_file"
_REPEAT_S = 4 * 3_600.0


class SinkSection(Section):
    """What every kind of sink takes."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9#@][A-Za-z0-9#@._:/-]*$", max_length=100)
    """How the ledger calls it; renamed, it is told once more what is firing. Two sinks of one place need one each."""
    min_severity: Severity = Severity.INFO
    """It is told nothing below: `critical` for a pager. What it was told once, it is told the end of."""
    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Names of clusters, or patterns with `*` and `?`: it is told of these alone."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "SinkSection":
        for key in type(self).model_fields:
            text = key.removesuffix(_FILE)
            if key != text and getattr(self, key) is not None and getattr(self, text, None) is not None:
                raise ValueError(f"give {text} or {key}, not both")
        return self

    def wanted(self, links: Links) -> Wanted:
        """The plain value that sinks are opened by."""
        route = Route(min_severity=self.min_severity, clusters=self.clusters)
        repeat_s = self.repeat if isinstance(self, PeopleSection) and self.repeat != "never" else None
        return Wanted(place=self.place(), links=links, name=self.name, route=route, repeat_s=repeat_s)

    def place(self) -> Place:
        """Where it is."""
        raise NotImplementedError

    def secret(self, key: str) -> Secret | None:
        """The secret of that key, given itself or as a file."""
        text, file = getattr(self, key), getattr(self, key + _FILE)
        if text is None and file is None:
            return None
        return Secret(text=None if text is None else text.get_secret_value(), file=file)

    def required(self, key: str) -> None:
        """The key, or its file, is given.

        Raises:
            ValueError: it is not.
        """
        if getattr(self, key) is None and getattr(self, key + _FILE) is None:
            raise ValueError(f"{key} (or {key}{_FILE}) is missing")


class PeopleSection(SinkSection):
    """What a sink for people takes besides."""

    repeat: Duration | Literal["never"] = _REPEAT_S
    """After how long what still stands is told again: `4h`, `90m`, seconds, or `never`."""
