"""Kernels of the gallery at larger sizes, without and with each option of a schedule, of an access and of a placement.

    python -m benchmarks.generator.options [--output docs/results/options_h200.json]
    python -m benchmarks.generator.options_page

The first variant of a case has none of its options. Variants of a case are timed with interleaved samples and cold
caches, after a sample of their results was compared with the reference. `unroll` tries each loop that the kernel has.
Of tiles, `taken` is the one that a launcher of variants would call. The second line renders the page from the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.timing.figures import about, save
from cugen.bench.buffers import Buffers
from cugen.bench.check import check
from cugen.bench.measure import own_contender
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session, session
from cugen.kernel import Kernel, generate
from cugen.kernel_choice import fastest_that_fits
from cugen.runtime.cuda.libcuda import driver
from cugen.runtime.gpu import target_for
from cugen.runtime.inputs import known_params
from cugen.schedule.unrolling import loops_of
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load
from cugen.toolchain.cuda import Cubin, compile_cubin

SPECS = Path(__file__).parents[2] / "specs"
OPTIONS = ("unroll", "max_registers", "fast_math", "carveout")
WITHOUT, TILE = "without", "tile"

Document = dict[str, Any]


@dataclass(frozen=True)
class Edit:
    """What a variant adds to a spec: keys of its schedule, and of its arrays by name."""

    schedule: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def apply(self, document: Document) -> Document:
        edited = deepcopy(document)
        if self.schedule:
            edited["schedule"] = edited.get("schedule", {}) | self.schedule
        for name, keys in self.arrays.items():
            edited["arrays"][name] |= keys
        return edited


@dataclass(frozen=True)
class Case:
    """A kernel of the gallery with other params, and the values of an option: of its schedule, or of `arrays`. Those of
    `unroll` are for each loop of the kernel; a `tile` is a block of as many rows and columns."""

    option: str
    kernel: str
    params: Mapping[str, int]
    values: Sequence[Any] = ()
    arrays: Sequence[str] = ()

    @property
    def document(self) -> Document:
        """The spec without options."""
        document: Document = yaml.safe_load((SPECS / f"{self.kernel}.yaml").read_text())
        document["params"] |= self.params
        if self.option == TILE:
            del document["variants"], document["schedule"]
        for key in OPTIONS:
            document.get("schedule", {}).pop(key, None)
        for name in self.arrays:
            document["arrays"][name].pop("memory" if self.option in ("load", "store") else self.option, None)
        return document

    def edits(self) -> Iterator[tuple[str, Edit]]:
        yield WITHOUT, Edit()
        if self.option == "unroll":
            loops = (name for kernel in planned(self.document).plan.kernels for name in loops_of(kernel))
            for name in dict.fromkeys(loops):
                yield from ((f"{name}: {factor}", Edit({"unroll": {name: factor}})) for factor in self.values)
            return
        for value in self.values:
            if self.option == TILE:
                yield words(value), Edit({"block": {"m": value, "n": value}, "step": {"k": value}})
            elif self.arrays:
                yield words(value), Edit(arrays=dict.fromkeys(self.arrays, self._keys(value)))
            else:
                yield words(value), Edit({self.option: value})

    def _keys(self, value: Any) -> Document:
        is_operator = self.option in ("load", "store")
        return {"memory": {"space": "global", self.option: value}} if is_operator else {self.option: value}

    def variants(self) -> dict[str, Kernel]:
        """Kernels by variant, without those that are refused."""
        kernels: dict[str, Kernel] = {}
        for name, edit in self.edits():
            with suppress(SpecError):
                kernels[name] = planned(edit.apply(self.document))
        return kernels


def words(value: Any) -> str:
    """The value of an option in a table."""
    if isinstance(value, dict):
        return ", ".join(str(item) if key == "space" else f"{key}: {item}" for key, item in value.items())
    return str(value).lower()


LOADS, STORES = ("ca", "cg", "cs", "lu"), ("wb", "cg", "cs", "wt")
TILES = ({"space": "shared"}, {"space": "shared", "pad": 1}, {"space": "shared", "swizzle": "xor"})
SQUARE = {"M": 1024, "N": 1024, "K": 1024}
IMAGE = {"H": 4096, "W": 4096}
CASES = (
    Case("unroll", "matmul_naive", SQUARE, (1, 2, 4, 8, 16, 32)),
    Case("unroll", "matmul_tiled", SQUARE, (1, 4, "full")),
    Case("unroll", "matmul_register_tiles", SQUARE, (1, 4, "full")),
    Case("unroll", "blur_shared", IMAGE, (1, 4, "full")),
    Case("unroll", "moving_average", {"N": 1 << 24}, (1, 4, 16, "full")),
    Case("max_registers", "logistic", {"N": 1 << 26}, (24, 32)),
    Case("max_registers", "matmul_register_tiles", SQUARE, (32, 40, 64)),
    Case("fast_math", "logistic", {"N": 1 << 26}, (True,)),
    Case("carveout", "matmul_dynamic_shared", SQUARE, (0, 25, 50, 100)),
    Case("carveout", "matmul_naive", SQUARE, (0, 50, 100)),
    Case("load", "pitched_copy", {"M": 4096, "N": 4096}, LOADS, ("dense",)),
    Case("store", "pitched_copy", {"M": 4096, "N": 4096}, STORES, ("pitched",)),
    Case("load", "matmul_naive", SQUARE, LOADS, ("A", "B")),
    Case(TILE, "matmul_tile_variants", SQUARE, (8, 16, 32)),
    Case(TILE, "matmul_tile_variants", {"M": 128, "N": 128, "K": 1024}, (8, 16, 32)),
    Case(TILE, "matmul_tile_variants", {"M": 64, "N": 4096, "K": 256}, (8, 16, 32)),
    Case("memory", "tone_curve", IMAGE, ("global", "readonly", "texture", "constant", "shared"), ("curve",)),
    Case("memory", "polynomial", {"N": 1 << 25}, ("global", "readonly", "constant", "register"), ("c",)),
    Case("memory", "transpose_shared", {"M": 4096, "N": 4096}, TILES, ("A",)),
    Case("memory", "blur5x5", IMAGE, ("global", "readonly", "texture", "shared"), ("image",)),
    Case("pitch", "transpose_naive", {"M": 4096, "N": 4096}, (4104, 4128, 4160), ("A", "B")),
    Case("pitch", "transpose_padded", {"M": 4096, "N": 4096}, (4104, 4128, 4160), ("A", "B")),
    Case("pitch", "column_sum", {"M": 16384, "N": 4096}, (4104, 4128, 4160), ("x",)),
)


def planned(document: Document) -> Kernel:
    return generate(load(document), remarks="none")


@dataclass(frozen=True)
class Variants:
    """The kernels of a case by variant, their machine code, and which are the same as an earlier one: of equal code and
    launches."""

    kernels: Mapping[str, Kernel]
    cubins: Mapping[str, Cubin]

    @property
    def same(self) -> dict[str, str]:
        first: dict[Any, str] = {}
        for name, kernel in self.kernels.items():
            first.setdefault(self._identity(name, kernel), name)
        firsts = {name: first[self._identity(name, kernel)] for name, kernel in self.kernels.items()}
        return {name: earlier for name, earlier in firsts.items() if name != earlier}

    def _identity(self, name: str, kernel: Kernel) -> Any:
        return self.cubins[name].image, kernel.manifest.launches


def row(opened: Session, case: Case, variants: Variants) -> dict[str, Any]:
    """Cold times of the variants in microseconds, and the registers of a thread; of what is wrong, why."""
    contenders: list[Contender] = []
    used: list[Buffers] = []
    wrong: dict[str, str] = {}
    same = variants.same
    kernels = {name: kernel for name, kernel in variants.kernels.items() if name not in same}
    flushed = opened.allocate(3 * opened.l2_bytes)
    try:
        for name, kernel in kernels.items():
            buffers = Buffers(opened, kernel.spec, kernel.manifest, known_params(kernel.spec, {}), 0)
            used.append(buffers)
            contender, scalars = own_contender(opened, kernel.spec, kernel, buffers, {}, 0)
            contender.run(0)
            verdict = check(opened, kernel.spec, buffers, {}, scalars, 0)
            if verdict.passed:
                contenders.append(Contender(name, contender.run))
            else:
                wrong[name] = "; ".join(verdict.messages)
        sets = min(buffers.count for buffers in used)
        plan = Plan(sets, lambda: opened.read(flushed, 3 * opened.l2_bytes), samples=40, budget_us=5e4)
        cold = measure(contenders, opened, plan)["cold"] if contenders else {}
        opened.synchronize()
    finally:
        for buffers in used:
            buffers.release()
        opened.release(flushed)
    times = {
        name: {"median": taken.median, "p10": taken.p10, "p90": taken.p90, "samples": len(taken.samples)}
        for name, taken in cold.items()
    }
    names = {"option": case.option, "kernel": case.kernel, "params": case.params, "arrays": case.arrays}
    registers = {
        name: [variants.cubins[name].kernels[launch.kernel].registers for launch in kernel.manifest.launches]
        for name, kernel in kernels.items()
    }
    figures = names | {"cold_us": times, "registers": registers, "same": same, "wrong": wrong}
    if case.option == TILE:
        tiles = {name: kernel for name, kernel in kernels.items() if name != WITHOUT}
        taken = fastest_that_fits(tuple(tiles.values()), driver().limits(opened.ordinal), opened.sms)
        figures["taken"] = next(name for name, kernel in tiles.items() if kernel is taken)
    return figures


def rows(opened: Session, cases: Iterable[Case]) -> Iterator[dict[str, Any]]:
    planned_cases = [(case, case.variants()) for case in cases]
    kernels = [kernel for _, variants in planned_cases for kernel in variants.values()]
    jobs = [(k.source, k.name, target_for(k.manifest, opened.capability)) for k in kernels]
    with ProcessPoolExecutor() as pool:
        cubins = dict(zip(map(id, kernels), pool.map(compile_cubin, *zip(*jobs, strict=True)), strict=True))
    for case, variants in planned_cases:
        yield row(opened, case, Variants(variants, {name: cubins[id(kernel)] for name, kernel in variants.items()}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the rows")
    args = parser.parse_args()
    cases: list[dict[str, Any]] = []
    with session() as opened:
        for measured in rows(opened, CASES):
            cases.append(measured)
            times = "  ".join(f"{name} {us['median']:.2f}" for name, us in measured["cold_us"].items())
            print(f"{measured['option']:13} {measured['kernel']:22} {times} {measured['wrong'] or ''}", flush=True)
        device = opened.device
    if args.output:
        save(args.output, about(device) | {"cases": cases})
    return 0


if __name__ == "__main__":
    sys.exit(main())
