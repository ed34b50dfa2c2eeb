"""SVG bar chart of benchmarks: a bar for each kernel, with the bars of its peers below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_LABEL_WIDTH, _MARGIN = 300, 24  # pixels
_ROW_GAP, _BAR_HEIGHT, _PEER_BAR_HEIGHT = 10, 11, 6  # pixels
_TICK_STEP = 0.25  # between grid lines, in units of the axis
_COLOURS = {
    "cugen": "#2f6f4f",
    "torch": "#d9822b",
    "torch.compile": "#b94e48",
    "cupy": "#4f7cac",
    "cublasLt": "#b94e48",
    "triton": "#7a5ba6",
}
_GREY = "#8a8a8a"


@dataclass(frozen=True)
class Bars:
    """Bars of one kernel: a share for each contender, cugen first."""

    label: str
    shares: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Axis:
    """Axis of the bars: its title, pixels per unit, and maximum. Longer bars are clipped; their label has the value."""

    text: str
    unit: int = 460
    maximum: float = 1.12


CEILING = Axis("share of the ceiling measured in the same run")


def chart(title: str, rows: Sequence[Bars], axis: Axis = CEILING) -> str:
    """Text of an SVG file, with a legend of the contenders below the title."""
    names = list(dict.fromkeys(name for row in rows for name, _ in row.shares))
    top = _MARGIN + 44
    heights = [_height(row) for row in rows]
    bottom = top + sum(heights)
    width = _LABEL_WIDTH + round(axis.unit * axis.maximum) + 2 * _MARGIN + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 40}" '
        f'viewBox="0 0 {width} {bottom + 40}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{bottom + 40}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN}" font-size="15" font-weight="600">{escape(title)}</text>',
        *_legend(names),
    ]
    for tick in (number * _TICK_STEP for number in range(int(axis.maximum / _TICK_STEP) + 1)):
        x = _x(tick, axis)
        stroke = "#888888" if tick == 1.0 else "#dddddd"
        parts.append(f'<line x1="{x}" y1="{top - 6}" x2="{x}" y2="{bottom}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle" fill="#555555">{tick:g}</text>')
    y = top
    for row, height in zip(rows, heights, strict=True):
        parts += _bars(row, y, axis)
        y += height
    parts.append(
        f'<text x="{_x(0.5, axis)}" y="{bottom + 32}" text-anchor="middle" fill="#555555">{escape(axis.text)}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _height(row: Bars) -> int:
    return _ROW_GAP + _BAR_HEIGHT + _PEER_BAR_HEIGHT * max(0, len(row.shares) - 1)


def _bars(row: Bars, top: int, axis: Axis) -> list[str]:
    baseline = top + _BAR_HEIGHT - 2
    elements = [
        f'<text x="{_MARGIN + _LABEL_WIDTH - 8}" y="{baseline}" text-anchor="end">{escape(row.label)}</text>',
    ]
    left, y = _x(0, axis), top
    for position, (name, share) in enumerate(row.shares):
        height = _BAR_HEIGHT if position == 0 else _PEER_BAR_HEIGHT
        length = max(1, round(min(share, axis.maximum) * axis.unit))
        elements.append(
            f'<rect x="{left}" y="{y}" width="{length}" height="{height - 1}" fill="{_COLOURS.get(name, _GREY)}">'
            f"<title>{escape(f'{row.label}, {name}: {share:.3f}')}</title></rect>"
        )
        if position == 0:
            elements.append(f'<text x="{left + length + 4}" y="{baseline}" fill="#222222">{share:.2f}</text>')
        y += height
    return elements


def _legend(names: Sequence[str]) -> list[str]:
    elements = []
    x = _MARGIN
    for name in names:
        elements.append(f'<rect x="{x}" y="{_MARGIN + 10}" width="10" height="10" fill="{_COLOURS.get(name, _GREY)}"/>')
        elements.append(f'<text x="{x + 14}" y="{_MARGIN + 19}">{escape(name)}</text>')
        x += 34 + 7 * len(name)
    return elements


def _x(share: float, axis: Axis) -> int:
    return _MARGIN + _LABEL_WIDTH + round(share * axis.unit)
