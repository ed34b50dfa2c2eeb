"""Section on the limits of the cases that miss a goal, from the figures and the counters of `limits.py`.

The limit is derived by one rule. A kernel whose DRAM utilisation is close to that of a copy of as many bytes is bound
by memory. Else a unit that is busy most of the time is the limit. Else memory and a unit may both be busy more than
half of the time, with incomplete overlap. Else the kernel is bound by latency, and the resident blocks per SM show how
much parallelism there is to hide it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.timing.page_parts import Row, contenders, goal_text, share, verdict

UNITS = {
    "issue_percent": "issue slots",
    "alu_percent": "alu",
    "fma_percent": "fma",
    "special_function_percent": "special functions",
    "load_store_percent": "load/store",
    "l1_data_percent": "L1 data",
}
_MIN_SHARE_OF_COPY = 0.96  # DRAM utilisation relative to a copy's, from which memory is the limit (heuristic)
_BUSY_PERCENT = 80  # utilisation from which a unit is the limit (heuristic)
_OVERLAP_PERCENT = 60  # utilisation from which memory and a unit limit each other (heuristic)
_MIN_EXTRA_TRAFFIC = 1.05  # DRAM bytes ÷ bytes of the problem, from which the ratio is printed (heuristic)
_MIN_COPY_TIMES = 0.95  # target time ÷ time of a copy, below which a goal is out of reach (heuristic)


def part(figures: Row, limits: Row | None) -> str:
    """Table of the cases that miss a goal; without `limits` only from their figures."""
    rows = [row for row in figures["cases"] if missed(row)]
    if limits is None:
        return "\n".join(["The counters are not measured yet.", "", *_plain(rows)]) + "\n"
    profiles = {row["name"]: row["launches"] for row in limits["cases"]}
    version = limits["profiler"].partition(" ")[0]
    heading = f"Nsight Compute {version}; {limits['date']}; `{limits['command']}`"
    return "\n".join([heading, "", *_profiled(rows, profiles)]) + "\n"


def missed(row: Row) -> list[Row]:
    """Required goals that a case misses."""
    return [goal for goal in row["goals"] if verdict(row, goal)[1] == "missed"]


def out_of_reach(row: Row, goal: Row) -> str:
    """Message for a goal that is faster than the ceiling; empty for others."""
    timed = contenders(row, goal.get("regime", "cold"))
    if goal["against"] not in timed or row["ceiling"] not in timed:
        return ""
    wanted = timed[goal["against"]]["median_us"] / goal["must"]
    ceiling_us = timed[row["ceiling"]]["median_us"]
    if wanted >= _MIN_COPY_TIMES * ceiling_us:
        return ""
    target = f"{goal['must']:g}× {goal['against']}"
    return f"out of reach: {target} is {wanted:.0f} µs, a {row['ceiling']} takes {ceiling_us:.0f}"


def whole(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Launches of a case combined: times and bytes added, shares weighted by time."""
    time = sum(launch["time_us"] for launch in launches)
    shares = [key for key in launches[0] if key.endswith("_percent")]
    return {
        "time_us": time,
        "dram_bytes": sum(launch["dram_read_bytes"] + launch["dram_written_bytes"] for launch in launches),
        **{key: sum(launch[key] * launch["time_us"] for launch in launches) / time for key in shares},
    }


def what_follows(row: Row, profile: Mapping[str, float]) -> str:
    """Limit of a kernel, by the rule above."""
    unit = max(UNITS, key=lambda key: profile[key])
    busy, memory = profile[unit], profile["memory_percent"]
    peak = profile["dram_bytes"] / profile["time_us"] / (memory / 100)  # bytes per microsecond
    copied = contenders(row, "cold")[row["ceiling"]]["gb_per_s"] * 1e3 / peak * 100
    extra = profile["dram_bytes"] / row["bytes"]
    more = f"; it moves {extra:.2f} times the bytes" if extra >= _MIN_EXTRA_TRAFFIC else ""
    if memory >= _MIN_SHARE_OF_COPY * copied:
        return f"memory: {memory:.0f} % busy, in a {row['ceiling']} {copied:.0f} %{more}"
    if busy >= _BUSY_PERCENT:
        return f"{UNITS[unit]}: {busy:.0f} % busy{more}"
    if min(busy, memory) >= _OVERLAP_PERCENT:
        return f"both: memory {memory:.0f} % of {copied:.0f}, {UNITS[unit]} {busy:.0f} %{more}"
    blocks = min(launch["blocks_per_sm"] for launch in row["launches"])
    resident = f"{blocks} block{'s' * (blocks != 1)} a multiprocessor"
    return f"waiting: memory {memory:.0f} % of {copied:.0f}, {UNITS[unit]} {busy:.0f} %, {resident}{more}"


def _plain(rows: Sequence[Row]) -> Iterator[str]:
    yield "| case | goals missed: figure | what follows from the figures |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| {row['name']} | {_goals(row)} | {'; '.join(_reasons(row)) or '–'} |"


def _profiled(rows: Sequence[Row], profiles: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[str]:
    shares = ("memory_percent", *UNITS, "warps_percent")
    yield (
        "| case | goals missed: figure | µs under the profiler | MB in DRAM ÷ the problem's | memory % "
        f"| {' | '.join(UNITS.values())} | warps | what follows |"
    )
    yield "|---|---|---|---|" + "---|" * (len(shares) + 1)
    for row in rows:
        launches = profiles.get(row["name"])
        cells, limit = ["–"] * (len(shares) + 2), "not profiled"
        if launches:
            profile = whole(launches)
            cells = [f"{profile['time_us']:.0f}", f"{profile['dram_bytes'] / 1e6:.0f} ÷ {row['bytes'] / 1e6:.0f}"]
            cells += [f"{profile[share]:.0f}" for share in shares]
            limit = what_follows(row, profile)
        yield f"| {' | '.join([row['name'], _goals(row), *cells, '; '.join([limit, *_reasons(row)])])} |"


def _goals(row: Row) -> str:
    return "; ".join(
        f"{goal_text(row, goal).partition(':')[0]}: {share(verdict(row, goal)[0])}" for goal in missed(row)
    )


def _reasons(row: Row) -> list[str]:
    return [reason for goal in missed(row) if (reason := out_of_reach(row, goal))]
