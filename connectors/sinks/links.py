"""MessageLinks: the links in messages to the documentation and to the job's page."""

from dataclasses import dataclass
from urllib.parse import quote

from rules.evaluate import RULES
from rules.notifications.route import JOB_CLUSTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLinks:
    """Base URLs for the whole job. Without a URL, messages have no such link."""

    docs_url: str | None = None
    """The URL of the documentation; its rule pages are at `rules/ID/` below it."""
    page_url: str | None = None
    """The URL of the job's page; a cluster's page is at `clusters/NAME` below it."""

    def rule(self, rule: str) -> str | None:
        """Returns the URL of the rule's page: in the documentation, or as the job serves it.

        For a notification of no rule, such as a test, that of the list of all rules.
        """
        name = quote(rule, safe="") if rule in RULES else ""
        if self.docs_url is not None:
            return "/".join(filter(None, (self.docs_url.rstrip("/"), "rules", name))) + "/"
        return None if self.page_url is None else "/".join(filter(None, (self.page_url.rstrip("/"), "rules", name)))

    def cluster(self, cluster: str) -> str | None:
        """Returns the URL of the cluster's page; for an alert about the job itself, of the overview."""
        if self.page_url is None:
            return None
        root = self.page_url.rstrip("/")
        return f"{root}/" if cluster == JOB_CLUSTER_ID else f"{root}/clusters/{quote(cluster, safe='')}"
