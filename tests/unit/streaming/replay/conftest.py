"""Hypothesis: the same few examples at every run; many random ones with KRAFTWATCH_EXHAUSTIVE=1."""

import os

from hypothesis import settings

untimed = settings.get_profile("untimed")
settings.register_profile("replay", untimed, derandomize=True, max_examples=60, database=None)
settings.register_profile("replay-exhaustive", untimed, max_examples=3_000)
settings.load_profile("replay-exhaustive" if os.environ.get("KRAFTWATCH_EXHAUSTIVE") else "replay")
