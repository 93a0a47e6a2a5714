"""The configuration of the dead man's switch: a URL that is requested while the job is healthy."""

from pathlib import Path

from pydantic import SecretStr, field_validator, model_validator

from connectors.secret import Secret
from connectors.settings import Duration, Section
from streaming.metrics.heartbeat import HeartbeatSchedule


class HeartbeatSection(Section):
    """A service that alarms when requests stop: healthchecks.io, Dead Man's Snitch, a cron monitor."""

    url: SecretStr | None = None
    """Requested by GET while batches complete and the gatherer runs, and while the job starts. A secret: its owner can
    suppress the alarm."""
    url_file: Path | None = None
    """A file with only the URL, read at each heartbeat; not together with url."""
    every: Duration = 60.0
    """Time between two heartbeats. Let the service wait for three of them."""

    @field_validator("url")
    @classmethod
    def _url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("should begin with https:// or http://")
        return value

    @model_validator(mode="after")
    def _one_url(self) -> "HeartbeatSection":
        if (self.url is None) == (self.url_file is None):
            raise ValueError("give url or url_file, one of them")
        return self

    def schedule(self) -> HeartbeatSchedule:
        """Returns URL and interval."""
        text = None if self.url is None else self.url.get_secret_value()
        return HeartbeatSchedule(url=Secret(text=text, file=self.url_file), every_s=self.every)
