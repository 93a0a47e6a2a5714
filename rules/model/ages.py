"""Ages: how old each kind of observation may be. What is older is not known now, whoever asks."""

from dataclasses import dataclass

from rules.model.identifiers import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The five ages of a quorum, in milliseconds; `rules.analysis.freshness.AGES` says what each is for."""

    poll_ms: Millis = Millis(10_000)
    fetch_ms: Millis = Millis(10_000)
    probe_ms: Millis = Millis(30_000)
    view_ms: Millis = Millis(30_000)
    answer_ms: Millis = Millis(10_000)
