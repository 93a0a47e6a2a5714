"""The dead-man heartbeat: a URL that is asked while the job is well."""

from pathlib import Path

from pydantic import SecretStr, field_validator, model_validator

from connectors.secret import Secret
from streaming.config.section import Duration, Section
from streaming.metrics.heartbeat import Rhythm


class HeartbeatSection(Section):
    """A service that alarms when it is no longer asked: healthchecks.io, Dead Man's Snitch, a cron monitor."""

    url: SecretStr | None = None
    """Asked with GET while batches end and the gatherer runs. A secret: whoever knows it can keep the alarm quiet."""
    url_file: Path | None = None
    """A file that holds the URL alone; not together with url. Read again at each beat."""
    every: Duration = 60.0
    """Time between two beats: seconds, or `90s`, `5m`. Let the service wait for three of them."""

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

    def rhythm(self) -> Rhythm:
        """The plain value that the heartbeat goes by."""
        text = None if self.url is None else self.url.get_secret_value()
        return Rhythm(url=Secret(text=text, file=self.url_file), every_s=self.every)
