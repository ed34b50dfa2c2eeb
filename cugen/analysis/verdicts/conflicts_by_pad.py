"""Bank conflicts of a shared memory tile as a function of its padding: exact per pad, then as a formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from cugen.analysis.totals.sites import Site, sites
from cugen.analysis.verdicts.report import AnalysisConfig, make_config
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array, row_major

PADS = range(33)  # 32 banks: conflicts are periodic in the pad for elements of a word or more


@dataclass(frozen=True)
class PaddedAccess:
    """Cost of one access to a tile at each pad that keeps it aligned.

    costs: (pad, wavefronts over the launch, ideal wavefronts, wavefronts of the worst request).
    formula: the last as a function of the pad: `gcd(32 + pad, 32)`, or `1 at odd pads, 2 at even pads`.
    """

    text: str
    costs: tuple[tuple[int, int, int, int], ...]
    formula: str


def conflicts_by_pad(
    kernel: Kernel, tile: str, target: Target | str, params: Mapping[str, int], *, bank_bytes: int | None = None
) -> tuple[tuple[int, int, int], ...]:
    """(pad, wavefronts, ideal wavefronts) of all accesses to a tile over the launch, for pads of 0 to 32 elements.

    tile: its name in C, or the spec's array that it stages. Pads that misalign a vectorised access are left out.
    ValueError for an unknown tile; Unknown where an access to it can't be counted.
    """
    return _sums_by_pad(padded_accesses(kernel, tile, target, params, bank_bytes=bank_bytes))


def padded_accesses(
    kernel: Kernel, tile: str, target: Target | str, params: Mapping[str, int], *, bank_bytes: int | None = None
) -> tuple[PaddedAccess, ...]:
    """Accesses to a tile with their cost by pad; arguments and errors as for `conflicts_by_pad`."""
    config = make_config(kernel, target, None, bank_bytes, None)
    wording = Wording.of(kernel, params)
    padded_sites = []
    for site in sites(kernel, params):
        array = site.access.array
        if array.space != "shared" or tile not in (array.symbol, array.name):
            continue
        costs = []
        for pad, padded in _padded(site):
            costs.append((pad, *wavefronts(kernel, padded, config)))
        formula = _formula(costs, int(array.shape[-1]), config.target.banks)
        padded_sites.append(PaddedAccess(wording.access(site.access), tuple(costs), formula))
    if not padded_sites:
        raise ValueError(f"{kernel.name} has no shared tile {tile!r}")
    return tuple(padded_sites)


def _padded(site: Site) -> Iterator[tuple[int, Site]]:
    """(pad, site with that pad) for each pad of the tile that keeps it aligned."""
    for pad in PADS:
        array = with_rows(site.access.array, pad)
        if not array.flat and is_aligned(array, site.access.width):
            yield pad, with_array(site, array)


def with_rows(array: Array, pad: int, swizzle: int | None = None) -> Array:
    """A row-major tile with other padding and, if given, another xor swizzle."""
    padded = replace(array, pad=pad, swizzle=array.swizzle if swizzle is None else swizzle)
    return replace(padded, strides=row_major(padded.padded_shape))


def is_aligned(array: Array, width: int) -> bool:
    """Whether vectors of so many elements stay aligned in every row."""
    return all(int(stride) % width == 0 for stride in array.strides[:-1])


def with_array(site: Site, array: Array) -> Site:
    """The access to an array of another layout."""
    access = Access(array, site.access.subscripts, site.access.kind, site.access.width)
    return replace(site, access=access, offset=site.offset_of(access))


def wavefronts(kernel: Kernel, site: Site, config: AnalysisConfig) -> tuple[int, int, int]:
    """(wavefronts over the launch, ideal wavefronts, wavefronts of the worst request) of a shared memory access."""
    total, _ = config.totals(kernel, site)
    worst = total.worst_pattern
    return total.wavefronts, total.ideal_wavefronts, worst.cost[1] if worst else 0


def _sums_by_pad(accesses: Iterable[PaddedAccess]) -> tuple[tuple[int, int, int], ...]:
    """(pad, wavefronts, ideal) summed over the accesses, for pads valid for all of them."""
    tables = [{pad: (cost, ideal) for pad, cost, ideal, _ in access.costs} for access in accesses]
    common = [pad for pad in PADS if all(pad in table for table in tables)]
    return tuple((pad, sum(t[pad][0] for t in tables), sum(t[pad][1] for t in tables)) for pad in common)


def _formula(costs: list[tuple[int, int, int, int]], width: int, banks: int) -> str:
    """Wavefronts of the worst request as a function of the pad."""
    ways = {pad: worst for pad, _, _, worst in costs}
    if len(set(ways.values())) == 1:
        return f"{next(iter(ways.values()))} at every pad"
    if all(worst == gcd(width + pad, banks) for pad, worst in ways.items()):
        return f"gcd({width} + pad, {banks})"
    usual, count = Counter(ways.values()).most_common(1)[0]
    listed_values = [value for value in sorted(set(ways.values())) if value != usual or count <= len(ways) // 2 + 1]
    listed = [f"{value} at {_pads(ways, value)}" for value in listed_values]
    return ", ".join(listed if usual in listed_values else [*listed, f"else {usual}"])


def _pads(ways: Mapping[int, int], value: int) -> str:
    """Pads with a value, as residues where these determine it."""
    chosen = [pad for pad, worst in ways.items() if worst == value]
    for modulus in (2, 4, 8, 16, 32):
        remainders = sorted({pad % modulus for pad in chosen})
        if all((pad in chosen) == (pad % modulus in remainders) for pad in ways):
            if modulus == 2:
                return "odd pads" if remainders == [1] else "even pads"
            return f"pad mod {modulus} = {_runs(remainders)}"
    return f"pad {_runs(chosen)}"


def _runs(numbers: list[int]) -> str:
    """`1, 4..7 or 9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
