"""Acceptance length against seconds as an SVG: one line a contestant, no library."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 168, 16, 44
_COLOURS = ("#0b6e99", "#c4472b", "#5b8c2a", "#7b4fa3")


@dataclass(frozen=True, slots=True)
class Line:
    """A contestant's points: seconds and acceptance length, in order."""

    name: str
    points: tuple[tuple[float, float], ...]


def plot(lines: Sequence[Line]) -> str:
    """The SVG document."""
    most_x = max(x for line in lines for x, _ in line.points)
    most_y = max(y for line in lines for _, y in line.points)
    top = max(2, int(most_y) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * x / most_x
        down = _TOP + (_HEIGHT - _TOP - _BOTTOM) * (top - y) / (top - 1)
        return round(across, 1), round(down, 1)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for level in range(1, top + 1):
        left, down = place(0, level)
        right, _ = place(most_x, level)
        parts.append(f'<path d="M{left} {down}H{right}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{down + 4}" text-anchor="end">{level}</text>')
    for tick in range(6):
        seconds = most_x * tick / 5
        across, down = place(seconds, 1)
        parts.append(
            f'<text x="{across}" y="{down + 18}" text-anchor="middle">{seconds:.0f}</text>'
        )
    middle = (_WIDTH - _RIGHT + _LEFT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "seconds since the process started, evaluations left out</text>"
    )
    parts.append(
        f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "acceptance length, greedy</text>"
    )
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x},{y}" for x, y in (place(*point) for point in line.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        across, down = place(*line.points[-1])
        parts.append(
            f'<text x="{across + 6}" y="{down + 4}" fill="{colour}">{escape(line.name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
