"""Ages: how old each kind of observation may be. What is older is not known now, whoever asks."""

from dataclasses import dataclass
from typing import Final

from rules.model.identifiers import Millis

_TEN_SECONDS: Final = Millis(10_000)
_HALF_A_MINUTE: Final = Millis(30_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The five ages of a quorum, in milliseconds; `rules.analysis.freshness.AGES` says what each is for."""

    poll_ms: Millis = _TEN_SECONDS
    fetch_ms: Millis = _TEN_SECONDS
    probe_ms: Millis = _HALF_A_MINUTE
    view_ms: Millis = _HALF_A_MINUTE
    answer_ms: Millis = _TEN_SECONDS


DEFAULT_AGES: Final = Ages()
