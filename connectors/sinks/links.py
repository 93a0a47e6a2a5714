"""Links: where a message sends its reader for more."""

from dataclasses import dataclass
from urllib.parse import quote

from rules.notifications.route import OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Addresses that hold for the whole job. Without one, messages do not link there."""

    docs_url: str | None = None
    """Where the documentation is served; its rules' pages are below it at `rules/ID/`."""
    page_url: str | None = None
    """Where people reach the job's page; a cluster's is below it at `clusters/NAME`."""

    def rule(self, rule: str) -> str | None:
        """The rule's page: in the documentation, or as the job serves it."""
        name = quote(rule, safe="")
        if self.docs_url is not None:
            return f"{self.docs_url.rstrip('/')}/rules/{name}/"
        return None if self.page_url is None else f"{self.page_url.rstrip('/')}/rules/{name}"

    def cluster(self, cluster: str) -> str | None:
        """The cluster on the job's page; of what is about the job itself, the whole page."""
        if self.page_url is None:
            return None
        root = self.page_url.rstrip("/")
        return f"{root}/" if cluster == OWN else f"{root}/clusters/{quote(cluster, safe='')}"
