"""Figures as inline SVG: no script, no colour without a shape, every mark a link to its event.

Here: geometry. Colours come from the page's style through classes. Not here: what is plotted
(``reports.plots``).
"""

from collections.abc import Iterator

from markupsafe import Markup, escape

from reports.model import Figure, Mark

_WIDTH, _GUTTER, _RIGHT = 960, 168, 24
_ROW, _TOP, _FOOT = 30, 14, 34
_PLOT_HEIGHT = 190
_MULTIPLE = 44
_NAME_MAX = 22
_TICKS = 6
_MINUTE_S = 60
_NICE = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)


def draw(figure: Figure, number: int) -> Markup:
    """The figure as an SVG element with title and description."""
    if figure.figure == "lanes":
        height = _TOP + _ROW * len(figure.rows) + _FOOT
        body = Markup().join(_lanes(figure))
    elif figure.figure == "multiples":
        height = _TOP + _MULTIPLE * len(figure.rows) + _FOOT
        body = Markup().join(_multiples(figure))
    else:
        height = _TOP + _PLOT_HEIGHT + _FOOT
        body = Markup().join(_line(figure))
    axis = Markup().join(_axis(figure, height - _FOOT))
    described = (
        f"{len(figure.marks)} marks in {len(figure.rows)} rows; the same data stand in the tables."
    )
    return Markup(
        '<svg class="plot" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        'aria-labelledby="f{n}-t f{n}-d"><title id="f{n}-t">{title}</title>'
        '<desc id="f{n}-d">{desc}</desc>{axis}{body}</svg>'
    ).format(w=_WIDTH, h=height, n=number, title=figure.title, desc=described, axis=axis, body=body)


def _x(figure: Figure, at_ms: int) -> str:
    """Horizontal place, to a tenth of a unit, in integers so that it is the same everywhere."""
    tenths = (_WIDTH - _GUTTER - _RIGHT) * 10 * at_ms // figure.duration_ms + _GUTTER * 10
    return f"{tenths // 10}.{tenths % 10}"


def _axis(figure: Figure, bottom: int) -> Iterator[Markup]:
    """A tick at each nice interval, labelled in seconds or minutes from the first event."""
    total_s = figure.duration_ms / 1000
    step = next((n for n in _NICE if total_s / n <= _TICKS), _NICE[-1])
    for second in range(0, int(total_s) + 1, step):
        x = _x(figure, second * 1000)
        words = f"{second} s" if second < _MINUTE_S or second % _MINUTE_S else f"{second // 60} min"
        yield Markup(
            '<line class="grid" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
            '<text class="tick" x="{x}" y="{y}" text-anchor="middle">{words}</text>'
        ).format(x=x, top=_TOP, bottom=bottom, y=bottom + 18, words=words)


def _lanes(figure: Figure) -> Iterator[Markup]:
    for place, row in enumerate(figure.rows):
        middle = _TOP + _ROW * place + _ROW // 2
        name = row if len(row) <= _NAME_MAX else row[: _NAME_MAX - 1] + "…"
        yield Markup(
            '<line class="lane" x1="{g}" x2="{r}" y1="{y}" y2="{y}"/>'
            '<text class="name" x="{t}" y="{b}" text-anchor="end">{name}</text>'
        ).format(g=_GUTTER, r=_WIDTH - _RIGHT, y=middle, t=_GUTTER - 10, b=middle + 4, name=name)
        for mark in sorted((m for m in figure.marks if m.row == row), key=_spans_first):
            yield _linked(mark, _shape(figure, mark, middle))


def _spans_first(mark: Mark) -> tuple[bool, int]:
    return mark.style not in {"span", "command"}, mark.at_ms


def _linked(mark: Mark, shape: Markup) -> Markup:
    return Markup('<a href="#ev-{e}"><title>{t}</title>{s}</a>').format(
        e=mark.event, t=mark.label, s=shape
    )


def _shape(figure: Figure, mark: Mark, y: int) -> Markup:
    x = _x(figure, mark.at_ms)
    match mark.style:
        case "span" | "command":
            end = _x(figure, mark.until_ms if mark.until_ms is not None else mark.at_ms)
            width = max(3.0, float(end) - float(x))
            thick = 10 if mark.style == "span" else 14
            return Markup(
                '<rect class="{c}" x="{x}" y="{y}" width="{w}" height="{h}" rx="2"/>'
            ).format(c=mark.style, x=x, y=y - thick // 2, w=f"{width:.1f}", h=thick)
        case "signal":
            return Markup(
                '<path class="signal" d="M{x} {a} l-6 -11 h12 z"/>'
                '<text class="mark" x="{x}" y="{b}" text-anchor="middle">{t}</text>'
            ).format(x=x, a=y + 3, b=y - 9, t=mark.label)
        case "verdict":
            return Markup(
                '<path class="verdict {v}" d="M{x} {a} l7 7 l-7 7 l-7 -7 z"/>{inside}'
            ).format(v=mark.label, x=x, a=y - 7, inside=_verdict_sign(mark, x, y))
        case _:
            return Markup('<circle class="{c}" cx="{x}" cy="{y}" r="5"/>').format(
                c=f"decision {mark.label}", x=x, y=y
            )


def _verdict_sign(mark: Mark, x: str, y: int) -> Markup:
    """A sign inside the diamond, so that colour is never alone."""
    sign = {"confirmed": "+", "refuted": "-", "inconclusive": "?"}.get(mark.label, "")
    return Markup('<text class="sign" x="{x}" y="{y}" text-anchor="middle">{s}</text>').format(
        x=x, y=y + 4, s=sign
    )


def _multiples(figure: Figure) -> Iterator[Markup]:
    """One small plot a row, all on one scale from nought, so that rows can be compared."""
    high = max([mark.value or 0 for mark in figure.marks] + [1])
    for place, row in enumerate(figure.rows):
        base = _TOP + _MULTIPLE * (place + 1) - 6
        marks = [m for m in figure.marks if m.row == row and m.value is not None]
        yield Markup(
            '<line class="grid" x1="{g}" x2="{r}" y1="{y}" y2="{y}"/>'
            '<text class="name" x="{t}" y="{y}" text-anchor="end">{name}</text>'
        ).format(g=_GUTTER, r=_WIDTH - _RIGHT, y=base, t=_GUTTER - 10, name=row)
        heights = [base - (_MULTIPLE - 14) * (m.value or 0) // high for m in marks]
        yield from _runs(figure, row, 0, {id(m): y for m, y in zip(marks, heights, strict=True)})
        for gap in (m for m in figure.marks if m.row == row and m.style == "gap"):
            cross = Markup('<path class="gap" d="M{x} {y} m-3 -3 l6 6 m0 -6 l-6 6"/>')
            yield _linked(gap, cross.format(x=_x(figure, gap.at_ms), y=base - 4))
        for mark, y in zip(marks, heights, strict=True):
            dot = Markup('<circle class="dot s0" cx="{x}" cy="{y}" r="3"/>')
            yield _linked(mark, dot.format(x=_x(figure, mark.at_ms), y=y))
        if marks:
            x = float(_x(figure, marks[-1].at_ms))
            after = x < _WIDTH - 120  # room for a value behind the last reading
            yield Markup('<text class="tick" x="{x}" y="{y}" text-anchor="{a}">{t}</text>').format(
                x=f"{x + (8 if after else -8):.1f}",
                y=heights[-1] - 5,
                a="start" if after else "end",
                t=f"{marks[-1].value} {figure.unit}",
            )


def _runs(figure: Figure, row: str, style: int, heights: dict[int, int]) -> Iterator[Markup]:
    """A row's line, broken where a reading is missing; a lone reading is its dot alone."""
    run: list[str] = []
    for mark in [*(m for m in figure.marks if m.row == row), None]:
        if mark is not None and id(mark) in heights:
            run.append(f"{_x(figure, mark.at_ms)},{heights[id(mark)]}")
            continue
        if len(run) > 1:
            yield Markup('<polyline class="line s{n}" points="{p}"/>').format(
                n=style, p=" ".join(run)
            )
        run = []


def _line(figure: Figure) -> Iterator[Markup]:
    values = [mark.value for mark in figure.marks if mark.value is not None]
    low, high = min(values), max(values)
    low = 0 if low >= 0 and low * 2 <= high else low
    spread = max(1, high - low)

    def y(value: int) -> int:
        return _TOP + 10 + (_PLOT_HEIGHT - 20) * (high - value) // spread

    for value in dict.fromkeys((high, low)):
        yield Markup(
            '<line class="grid" x1="{g}" x2="{r}" y1="{y}" y2="{y}"/>'
            '<text class="tick" x="{t}" y="{b}" text-anchor="end">{v} {u}</text>'
        ).format(
            g=_GUTTER,
            r=_WIDTH - _RIGHT,
            y=y(value),
            t=_GUTTER - 10,
            b=y(value) + 4,
            v=value,
            u=figure.unit,
        )
    for place, row in enumerate(figure.rows):
        marks = [m for m in figure.marks if m.row == row and m.value is not None]
        yield from _runs(figure, row, place % 6, {id(m): y(m.value or 0) for m in marks})
        for mark in marks:
            dot = Markup('<circle class="dot s{n}" cx="{x}" cy="{y}" r="4"/>').format(
                n=place % 6, x=_x(figure, mark.at_ms), y=y(mark.value or 0)
            )
            yield _linked(mark, dot)
        if marks:
            last = marks[-1]
            after = int(float(_x(figure, last.at_ms))) > _WIDTH - 200  # room for a name
            yield Markup('<text class="mark" x="{x}" y="{y}" text-anchor="{a}">{t}</text>').format(
                x=_x(figure, last.at_ms),
                y=y(last.value or 0) - 9,
                a="end" if after else "start",
                t=escape(row),
            )
