"""A bug that a developer could make: one text of a module replaced by another, and the test that notices it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """`right` occurs once in `module`; with `wrong` in its place, `noticed_by` fails."""

    module: str
    right: str
    wrong: str
    noticed_by: str
    """FILE::TEST, as pytest takes it."""
    rows: str = ""
    """The rows of tests/kips/rows.txt that the product violates then."""
