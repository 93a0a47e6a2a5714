"""Line charts as SVG, for the documentation: written by hand, so that the same figures give the same file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

_WIDTH, _HEIGHT = 760, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 190, 48, 56
_COLOURS = ("#0f766e", "#c2410c", "#3b5bdb", "#7786a0")
_FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
Points: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a chart."""

    label: str
    logarithmic: bool = False

    def ticks(self, low: float, high: float) -> list[float]:
        """Returns the values that are labelled; the first and the last enclose all values."""
        if self.logarithmic:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            return [10.0**power for power in range(first, max(last, first + 1) + 1)]
        rough = (high or 1.0) / 5
        size = 10 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
        return [step * number for number in range(math.ceil((high or 1.0) / step) + 1)]

    def share(self, value: float, ticks: Sequence[float]) -> float:
        """Returns where a value is between the first and the last tick: 0 to 1."""
        if self.logarithmic:
            return math.log10(value / ticks[0]) / math.log10(ticks[-1] / ticks[0])
        return (value - ticks[0]) / (ticks[-1] - ticks[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """A chart with one line for each series."""

    title: str
    x: Axis
    y: Axis
    series: Mapping[str, Points]
    dots: bool = True

    def svg(self) -> str:
        """Returns the picture."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        points = [point for line in self.series.values() for point in line]
        x_ticks = self.x.ticks(min(x for x, _ in points), max(x for x, _ in points))
        y_ticks = self.y.ticks(min(y for _, y in points), max(y for _, y in points))

        def across(value: float) -> float:
            return _LEFT + (_WIDTH - _LEFT - _RIGHT) * self.x.share(value, x_ticks)

        def up(value: float) -> float:
            return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * self.y.share(value, y_ticks)

        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-labelledby="title" font-family="{escape(_FONT)}" font-size="12" fill="#51607a">'
        )
        yield f'  <title id="title">{escape(self.title)}</title>'
        yield f'  <rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
        yield f'  <text x="{_LEFT}" y="26" font-size="15" font-weight="600" fill="#1c2738">{escape(self.title)}</text>'
        for tick in x_ticks:
            yield _line(across(tick), up(y_ticks[0]), across(tick), up(y_ticks[-1]))
            yield _text(across(tick), _HEIGHT - _BOTTOM + 18, _number(tick), "middle")
        for tick in y_ticks:
            yield _line(across(x_ticks[0]), up(tick), across(x_ticks[-1]), up(tick))
            yield _text(_LEFT - 8, up(tick) + 4, _number(tick), "end")
        yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, self.x.label, "middle")
        yield (
            f'  <text transform="translate(18 {(_TOP + _HEIGHT - _BOTTOM) / 2:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.y.label)}</text>"
        )
        for number, (name, line) in enumerate(self.series.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
            yield f'  <polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for x, y in line if self.dots else ():
                yield f'  <circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>'
            at = _TOP + 14 + 22 * number
            yield f'  <rect x="{_WIDTH - _RIGHT + 16}" y="{at - 9}" width="12" height="4" fill="{colour}"/>'
            yield _text(_WIDTH - _RIGHT + 34, at - 3, name, "start")
        yield "</svg>"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'  <line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e2e8f1"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'  <text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _number(value: float) -> str:
    """Returns a short number: 1 k, 10 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
