"""Names and patterns that must match something: the clusters of the configuration, or the rules."""

import difflib
from collections.abc import Collection
from fnmatch import fnmatchcase

_SHOWN = 12
"""Known names that an error lists."""


def unmatched(pattern: str, known: Collection[str], what: str) -> str | None:
    """Returns why a pattern has no effect, in one sentence with the nearest known name; None if it matches a name.

    Args:
        pattern: a name, or a pattern with `*`, `?` and `[abc]`.
        known: the names.
        what: what they name, such as `cluster`.
    """
    if any(fnmatchcase(name, pattern) for name in known):
        return None
    literal = pattern.lower().strip("*?")
    near = difflib.get_close_matches(literal, known, n=1, cutoff=0.5)
    names = sorted(known)
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"'{pattern}' matches no {what}; " + (f"did you mean '{near[0]}'?" if near else f"known: {listed}")
