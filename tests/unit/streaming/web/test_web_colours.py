"""Text and shapes have the contrast that WCAG 2 AA requires."""

import re

import pytest

from streaming.web.templating import asset

TEXT, SHAPES = 4.5, 3.0
SCHEMES = ("light", "dark")
STATES = ("critical", "warning", "unknown", "info", "healthy")
PAIRS = [
    *((ink, ground, TEXT) for ink in ("ink", "soft", "link") for ground in ("ground", "surface", "sunken")),
    *((f"on-{state}", state, TEXT) for state in STATES),
    ("healthy", "surface", TEXT),
    *(
        (shape, "surface", SHAPES)
        for shape in ("mark", "critical", "unknown", "info", "bar-recovering", "focus", "soft")
    ),
    ("focus", "ground", SHAPES),
    ("bar-silence", "surface", SHAPES),
]


def colours(scheme: str) -> dict[str, str]:
    css = asset("kraftwatch.css")
    dark = css.index("@media screen and (prefers-color-scheme: dark)")
    block = css[dark : css.index("\n}", dark)] if scheme == "dark" else css[:dark]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS)
def test_contrast_of_each_pair(scheme: str, ink: str, ground: str, least: float) -> None:
    known = colours(scheme)
    assert contrast(known[ink], known[ground]) >= least
