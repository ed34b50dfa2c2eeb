"""Text of a benchmark, from the object of `--json`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from cugen.cli.text.layout import fit, table
from cugen.cli.text.run import values_text
from cugen.cli.text.terminal import paint

Content = dict[str, Any]
_HEADINGS = ("", "median", "p10", "p90", "GB/s", "GFLOP/s", "of ceiling", "time ÷ ours", "samples")
_DROPPED = (8, 2, 3, 5, 4)  # columns that narrow terminals lack, in this order


def text(content: Content, *, quiet: bool) -> str:
    """Text of the measurements; for a wrong kernel, its errors."""
    name = content["kernel"]
    if not content["passed"]:
        failed = f"{name}: {paint('FAILED', 'red', sys.stdout)} ({content['checked']} of its elements checked)"
        return fit("\n".join([failed, *(f"  {message}" for message in content["messages"])]), sys.stdout)
    lines = [f"{name}: {', '.join(content['families'])} on {content['device']}{_gpu(content)}"]
    if not quiet:
        lines += [f"  {line}" for line in _facts(content)]
    lines = [fit(line, sys.stdout) for line in lines]
    for regime, rows in content["regimes"].items():
        cells = [(regime, *_HEADINGS[1:]), *map(_cells, rows)]
        lines += table(cells, sys.stdout, right=range(1, len(_HEADINGS)), drop=_DROPPED)
    return "\n".join(lines)


def _gpu(content: Content) -> str:
    """Which one of several GPUs, and how its cold time compares with the median of its model."""
    if "gpu" not in content:
        return ""
    return f" {content['gpu']}, {content['to_median'] - 1:+.1%} to the median" if content["to_median"] else ""


def _facts(content: Content) -> Iterator[str]:
    yield f"checked    {content['checked']} of the outputs' elements; off by {content['max_abs_error']:.3g} at most"
    if content.get("dynamic_params"):
        yield f"params     {values_text(content['dynamic_params'])}"
    if content["reruns"]:
        yield f"repeated   {content['reruns']} times with the same bits"
    work = f", {content['flop']:,} FLOP" if content["flop"] else ""
    ceiling = content["ceiling"]
    said = f"a device {ceiling} of as many bytes" if ceiling in ("copy", "read") else f"the time of {ceiling}"
    yield f"work       {content['bytes']:,} bytes{work}; the ceiling is {said}"
    for launch in content["launches"]:
        grid, block = (" × ".join(map(str, launch[key])) for key in ("grid", "block"))
        spills = f", {launch['spill_bytes']} bytes of spills" if launch["spill_bytes"] else ""
        yield (
            f"launch     {launch['kernel']}: grid {grid}, block {block}, {launch['shared_bytes']} shared bytes, "
            f"{launch['registers']} registers{spills}, occupancy {launch['occupancy']:.0%}"
        )
    cached = " (from the cache)" if content["compile_cached"] else ""
    yield f"build      generated in {content['generate_ms']:.0f} ms, compiled in {content['compile_ms']:.0f} ms{cached}"
    for peer in content["peers"]:
        if peer["absent"]:
            yield f"no peer    {peer['name']}: {peer['absent']}"
        else:
            yield f"peer       {peer['name']} {peer['version']}: {_last(peer['source'])}"
    if content["late_batches"]:
        yield f"caution    the GPU waited for the host in {content['late_batches']} batches"


def _last(source: str) -> str:
    """One-line summary of a peer's source: its only statement, or the number of lines."""
    lines = [line.strip() for line in source.splitlines()[1:-1]]
    return lines[0] if len(lines) == 1 else f"{len(lines)} lines, see `--json`"


def _cells(row: Content) -> Sequence[str]:
    return (
        row["name"],
        *(f"{row[key]:.2f} µs" for key in ("median_us", "p10_us", "p90_us")),
        _number(row["gb_per_s"], ".0f"),
        _number(row["gflop_per_s"], ".0f"),
        _number(row["share_of_ceiling"], ".3f"),
        _number(row["ratio"], ".3f"),
        str(row["samples"]),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"
