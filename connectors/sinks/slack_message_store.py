"""Posted: which message stands for which incident in a chat, over restarts: a small file beside the ledger."""

import hashlib
import json
import logging
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from connectors.durable_file import replace_file

_LOG = logging.getLogger(__name__)
_KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """One message."""

    channel: str
    ts: str
    """Slack's name for it within the channel."""
    severity: str
    """What it showed last."""
    told: str
    """Which notice it was told last, all of it."""


class Posted:
    """The newest thousand, by incident. Losing the file costs a second message for what is firing, nothing more."""

    def __init__(self, folder: Path, name: str) -> None:
        """`name` of the sink; `folder` need not be there yet."""
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        self._path = folder / f"sink-{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')[:40]}-{digest}.json"
        self._postings: dict[str, Posting] | None = None
        self._failed = False

    def find(self, incident: str) -> Posting | None:
        """The message of an incident."""
        return self._read().get(incident)

    def note(self, incident: str, posting: Posting) -> None:
        """Remember it, on the disk if that is possible."""
        postings = self._read()
        if postings.get(incident) == posting:
            return
        postings.pop(incident, None)
        postings[incident] = posting
        for oldest in list(postings)[:-_KEPT]:
            del postings[oldest]
        self._write(postings)

    def _read(self) -> dict[str, Posting]:
        if self._postings is None:
            self._postings = {}
            try:
                document = json.loads(self._path.read_bytes())
                self._postings = {incident: Posting(**plain) for incident, plain in document["messages"].items()}
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                _LOG.warning("%s cannot be read: what is firing is posted anew.", self._path)
        return self._postings

    def _write(self, postings: dict[str, Posting]) -> None:
        content = json.dumps({"version": 1, "messages": {key: asdict(each) for key, each in postings.items()}}).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, content)
            self._failed = False
        except OSError as problem:
            # The alert was told: it must not be told again because of this.
            if not self._failed:
                _LOG.warning("%s cannot be written: %s; a restart posts anew.", self._path, problem.strerror)
            self._failed = True
