"""The timeline of a pipeline: a row of events for each role, and a row for each stage."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.report.timeline import BARRIER, COPY, MATH, RELEASE, WAIT, Event, Flight, Timeline

_SLOT, _ROW, _GAP = 20, 22, 6  # pixels
_LEFT, _TOP = 92, 4
_TEXTS = {WAIT: "w", BARRIER: "b", RELEASE: "r"}  # of events without a k-tile


@dataclass(frozen=True, slots=True)
class Mark:
    """A box of an event, or of a stage's state: `kind` is that of the event, or flight for a copy under way."""

    kind: str
    x: float
    y: float
    width: float
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    text: str
    y: float


@dataclass(frozen=True, slots=True)
class PipelineChart:
    """Marks and the labels of rows in an SVG of `width` × `height`; boxes are `box` high. `rule` separates the roles
    from the stages."""

    timeline: Timeline
    width: float
    height: float
    labels: tuple[Label, ...]
    marks: tuple[Mark, ...]
    rule: float
    left: int = _LEFT
    box: int = _ROW - 4

    @property
    def summary(self) -> str:
        """The stages of the first k-tiles in words."""
        return "; ".join(_in_words(flight) for flight in self.timeline.flights if flight.reads)


def pipeline_chart(timeline: Timeline) -> PipelineChart:
    labels, marks = [], []
    for row, (role, events) in enumerate(timeline.roles):
        y = _TOP + row * _ROW
        labels.append(Label(role, y))
        marks += [_event(event, y) for event in events]
    rule = _TOP + len(timeline.roles) * _ROW + _GAP / 2
    first = rule + _GAP / 2
    labels += [Label(f"stage {stage}", first + stage * _ROW) for stage in range(timeline.stages)]
    for flight in timeline.flights:
        marks += _flight(flight, first + flight.stage * _ROW, timeline.slots)
    height = first + timeline.stages * _ROW + _TOP
    return PipelineChart(timeline, _LEFT + timeline.slots * _SLOT + 2, height, tuple(labels), tuple(marks), rule)


def _event(event: Event, y: float) -> Mark:
    k_tile = event.k_tile if event.kind in (COPY, MATH) else None
    text = _TEXTS.get(event.kind, "") if k_tile is None else str(k_tile)
    title = event.kind if event.stage is None else f"{event.kind}, stage {event.stage}"
    title += f", k-tile {event.k_tile}" if event.k_tile is not None else ""
    return _mark(event.kind, event.slot, event.slot + 1, y, text, title)


def _flight(flight: Flight, y: float, slots: int) -> list[Mark]:
    """The copy from its issue until a wait or barrier completes it, and the reads."""
    complete = slots if flight.complete is None else flight.complete + 1
    title = f"stage {flight.stage}: k-tile {flight.k_tile} is copied"
    copied = _mark("flight", flight.issued, complete, y, str(flight.k_tile), title)
    title = f"stage {flight.stage}: k-tile {flight.k_tile} is read"
    return [copied, *(_mark(MATH, slot, slot + 1, y, str(flight.k_tile), title) for slot in flight.reads)]


def _mark(kind: str, start: int, stop: int, y: float, text: str, title: str) -> Mark:
    return Mark(kind, _LEFT + start * _SLOT + 1, y, (stop - start) * _SLOT - 2, text, title)


def _in_words(flight: Flight) -> str:
    complete = "never" if flight.complete is None else str(flight.complete)
    read = ", ".join(map(str, flight.reads))
    return (
        f"k-tile {flight.k_tile} in stage {flight.stage}: copy issued in slot {flight.issued}, complete in {complete}, "
        f"read in {read}"
    )
