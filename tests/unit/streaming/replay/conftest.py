"""Hypothesis: few examples by default, and many with KRAFTWATCH_EXHAUSTIVE=1."""

from hypothesis import settings

from tests.conftest import EXHAUSTIVE

settings.register_profile("replay", settings.get_profile("untimed"), max_examples=3_000 if EXHAUSTIVE else 60)
settings.load_profile("replay")
