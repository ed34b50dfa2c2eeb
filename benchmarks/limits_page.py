"""The section on what holds back the cases that miss a goal, from the list's figures and what `limits.py` wrote.

What follows from the counters is said by one rule. A copy of as many bytes moves some share of what the memory could
move at most: a kernel that comes near it is limited by memory. Else a unit that is busy most of the time limits it.
Else memory and a unit may both be busy more often than not, and neither hides all of the other. Else the time goes into
waiting, and the blocks that a multiprocessor holds at once say how much there is to wait beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from page_parts import Row, contenders, goal_text, share, verdict

UNITS = {
    "issue_percent": "issue slots",
    "alu_percent": "alu",
    "fma_percent": "fma",
    "special_function_percent": "special functions",
    "load_store_percent": "load/store",
    "l1_data_percent": "L1 data",
}
_NEAR = 0.96  # of the share of the memory that a copy keeps busy
_BUSY = 80  # percent, from which a unit limits
_OFTEN = 60  # percent, from which a unit, or the memory, holds up the other
_EXTRA = 1.05  # bytes moved over those of the problem, from which they are worth a word
_COPIES = 0.95  # of the time of a copy, below which nothing can be expected


def part(figures: Row, limits: Row | None) -> str:
    """A row for each case that misses a goal; without `limits` only what the figures say."""
    rows = [row for row in figures["cases"] if missed(row)]
    if limits is None:
        return "\n".join(["The counters are not measured yet.", "", *_plain(rows)]) + "\n"
    profiles = {row["name"]: row["launches"] for row in limits["cases"]}
    version = limits["profiler"].partition(" ")[0]
    heading = f"Nsight Compute {version}; {limits['date']}; `{limits['command']}`"
    return "\n".join([heading, "", *_profiled(rows, profiles)]) + "\n"


def missed(row: Row) -> list[Row]:
    """The goals that must be reached and weren't."""
    return [goal for goal in row["goals"] if verdict(row, goal)[1] == "missed"]


def out_of_reach(row: Row, goal: Row) -> str:
    """Why a goal can't be met, where what it asks for is faster than the ceiling; empty where it may be."""
    timed = contenders(row, goal.get("regime", "cold"))
    if goal["against"] not in timed or row["ceiling"] not in timed:
        return ""
    wanted = timed[goal["against"]]["median_us"] / goal["must"]
    ceiling_us = timed[row["ceiling"]]["median_us"]
    if wanted >= _COPIES * ceiling_us:
        return ""
    target = f"{goal['must']:g}× {goal['against']}"
    return f"out of reach: {target} is {wanted:.0f} µs, a {row['ceiling']} takes {ceiling_us:.0f}"


def whole(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The launches of a case as one: times and bytes summed, shares by the time that they hold for."""
    time = sum(launch["time_us"] for launch in launches)
    shares = [key for key in launches[0] if key.endswith("_percent")]
    return {
        "time_us": time,
        "dram_bytes": sum(launch["dram_read_bytes"] + launch["dram_written_bytes"] for launch in launches),
        **{key: sum(launch[key] * launch["time_us"] for launch in launches) / time for key in shares},
    }


def what_follows(row: Row, profile: Mapping[str, float]) -> str:
    """What limits the kernel, by the rule above."""
    unit = max(UNITS, key=lambda key: profile[key])
    busy, memory = profile[unit], profile["memory_percent"]
    peak = profile["dram_bytes"] / profile["time_us"] / (memory / 100)  # bytes in a microsecond
    copied = contenders(row, "cold")[row["ceiling"]]["gb_per_s"] * 1e3 / peak * 100
    extra = profile["dram_bytes"] / row["bytes"]
    more = f"; it moves {extra:.2f} times the bytes" if extra >= _EXTRA else ""
    if memory >= _NEAR * copied:
        return f"memory: {memory:.0f} % busy, in a {row['ceiling']} {copied:.0f} %{more}"
    if busy >= _BUSY:
        return f"{UNITS[unit]}: {busy:.0f} % busy{more}"
    if min(busy, memory) >= _OFTEN:
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
