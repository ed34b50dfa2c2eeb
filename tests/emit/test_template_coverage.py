"""Every branch of every template is taken by some kernel, and every condition fails for some other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import jinja2
import pytest

import cugen.emit.host.embed
import cugen.emit.host.launch_header
import cugen.emit.host.program.program
import cugen.emit.host.variants
from cugen.emit.environment import environment, template_folder
from cugen.emit.host.embed import Code, Image
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.functions import function_text
from cugen.emit.source import render_raw
from cugen.kernel import generate
from cugen.kernel_choice import block_cost
from cugen.machine.target import MAX_TENSOR_DIMENSIONS
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_all, load_text
from cugen.spec.siblings import siblings
from cugen.spec.types import FLOAT32, INT32, UINT32

ROOT = Path(__file__).parents[2]
_BRANCH = re.compile(r"\s*\{%-? *(if|elif|else|for)\b.*%\}\s*")

SPLIT_ALONG_K = """
cugen: 1
kernel: product
params: {M: 64, N: 64, K: 16384}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""
SPLIT_BY_WORKSPACE = SPLIT_ALONG_K + "schedule: {family: gemm, split_k: 8, reduction: workspace}"
PROGRAM_SPECS = ROOT / "tests" / "data" / "program_specs.yaml"  # for the branches of host programs
TEMPLATE_SPECS = ROOT / "tests" / "data" / "template_specs.yaml"  # for branches that the gallery doesn't take
VARIANTS = """
cugen: 1
kernel: share
variants: {size: [64, 128]}
params: {M: dynamic}
arrays:
  A: {shape: [M], dtype: float32}
  part: {shape: [M], dtype: float32, memory: scratch}
  Y: {shape: [M], dtype: float32}
compute: |
  part[i] = 2 * A[i]
  Y[i] = part[i] / sum(part[j], j)
schedule: {family: direct, block: {i: $size}}
"""
PLAIN_VARIANTS = """
cugen: 1
kernel: plain
variants: {size: [64, 128]}
arrays: {A: {shape: [512], dtype: float32}, Y: {shape: [512], dtype: float32}}
compute: Y[i] = A[i]
schedule: {family: direct, block: {i: $size}}
"""
DYNAMIC_VARIANTS = """
cugen: 1
kernel: tiles
variants: {pad: [400, 500]}
arrays:
  A: {shape: [64, 64], dtype: float32, memory: {space: shared, dynamic: true, pad: $pad}}
  B: {shape: [64, 64], dtype: float32}
compute: B[j, i] = A[i, j]
schedule: {block: {i: 32, j: 32}, thread: {i: 4}, carveout: 100}
"""
SIZE_VARIANTS = VARIANTS.replace("M: dynamic", "M: $size, L: $size")


class CountingLoader(jinja2.FileSystemLoader):
    """Loads templates that count, under `places`, how often each branch and each condition is reached."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.may_fail_of_branch: dict[
            str, bool
        ] = {}  # branch -> whether it is an `if` that may fail without an alternative
        self.counts: Counter[str] = Counter()

    def count(self, branch: str) -> str:
        self.counts[branch] += 1
        return ""

    def get_source(self, environment, template):
        text, path, fresh = super().get_source(environment, template)
        lines, open_ifs = [], []
        for number, line in enumerate(text.splitlines(), 1):
            branch = f"{template}:{number}"
            match = _BRANCH.fullmatch(line)
            if match:
                kind = match.group(1)
                self.may_fail_of_branch[branch] = kind == "if"
                if kind == "if":
                    open_ifs.append(branch)
                    line = f'{{{{ count("{branch} reached") }}}}' + line
                elif kind in ("elif", "else"):
                    self.may_fail_of_branch[open_ifs[-1]] = False
                line += f'{{{{ count("{branch}") }}}}'
            elif re.match(r"\s*\{%-? *endif", line):
                open_ifs.pop()
            lines.append(line)
        return "\n".join(lines) + "\n", path, fresh


@pytest.fixture(scope="module")
def counted():
    """The loader, after all kernels were rendered through it."""
    loader = CountingLoader(template_folder())
    env = environment()
    env.loader = loader
    env.globals["count"] = loader.count
    specs = [spec for path in sorted((ROOT / "specs").glob("*.yaml")) for spec in load_all(path)]
    specs += load_all(TEMPLATE_SPECS)
    specs += load_text(SPLIT_ALONG_K, target="sm_90a")
    specs += load_text(DYNAMIC_VARIANTS)
    for spec in specs:
        plan = make_plan(spec)
        first = next(iter(_accesses(plan))).serial
        render_raw(env, plan.context, plan, Remarks({first: "said"}))
    # Helpers for types that those kernels don't ask for.
    for path in sorted((template_folder() / "functions").iterdir()):
        name = path.name.removesuffix(".cu.j2")
        if name in ("wgmma", "load_cached", "store_cached", "load_ptx", "store_ptx"):  # a function for each instruction
            continue
        if name in ("tma_load", "tma_load_multicast", "tma_store"):  # one for each rank
            for rank in range(2, MAX_TENSOR_DIMENSIONS + 1):
                function_text(env, name.replace("load", f"load_{rank}d").replace("store", f"store_{rank}d"), "")
            continue
        generic = "template <" in path.read_text()
        for dtype in (FLOAT32, INT32, UINT32):
            function_text(env, name, "" if generic else c_name(dtype))
    env.get_template("umbrella.h.j2").render(name="all.h", lines=["one"], includes=["one.h"], version="1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cugen.emit.host.variants, "environment", lambda: env)
        patch.setattr(cugen.emit.host.embed, "environment", lambda: env)
        patch.setattr(cugen.emit.host.launch_header, "environment", lambda: env)
        patch.setattr(cugen.emit.host.program.program, "environment", lambda: env)
        cugen.emit.host.launch_header.launch_header()
        for spec in load_all(PROGRAM_SPECS):
            kernel = generate(spec, analysis=False)
            kinds = ("main", "main-overlap") if kernel.name.startswith("split") else ("main",)
            for kind in kinds:
                cugen.emit.host.program.program.program(kind, kernel.context, kernel.manifest)
        for kernel in map(generate, (*load_all(TEMPLATE_SPECS), *load_all(ROOT / "specs" / "conv_wgmma_bf16.yaml"))):
            image = Image(b"code", (kernel.spec.target,), "nobody")
            cugen.emit.host.embed.embed(kernel.context, kernel.plan, kernel.manifest, image)
        by_target = [
            generate(spec)
            for text, name in ((SPLIT_BY_WORKSPACE, "sm_90"), (SPLIT_ALONG_K, "sm_90a"))
            for spec in load_text(text, target=name)
        ]
        codes = [Code(k.context, k.plan, k.manifest, Image(b"code", (k.spec.target,), "nobody")) for k in by_target]
        for code in codes:  # with and without a workspace
            cugen.emit.host.embed.embed(code.context, code.plan, code.manifest, code.image, codes)
        for text in (VARIANTS, PLAIN_VARIANTS, DYNAMIC_VARIANTS, SIZE_VARIANTS):
            specs_of_text = load_text(text)
            (group,) = siblings(specs_of_text)
            kernels = tuple(map(generate, specs_of_text))
            for cost in (block_cost, lambda kernel: None):
                made = [(kernel.context, kernel.plan, kernel.manifest, cost(kernel)) for kernel in kernels]
                entries = [cugen.emit.host.variants.make_entry(*planned) for planned in made]
                cugen.emit.host.variants.variants_headers(group, entries)
        for spec in (*load_text(DYNAMIC_VARIANTS), *load_text(PLAIN_VARIANTS)):
            kernel = generate(spec)
            code = Code(kernel.context, kernel.plan, kernel.manifest, Image(b"code", (spec.target,), "nobody"))
            cugen.emit.host.embed.embed(code.context, code.plan, code.manifest, code.image)
            cugen.emit.host.embed.embed(code.context, code.plan, code.manifest, code.image, [code])
    return loader


def _accesses(plan):
    for kernel in plan.kernels:
        yield from accesses(kernel.body)


@pytest.mark.slow
def test_every_template_is_rendered(counted):
    files = {path.relative_to(template_folder()).as_posix() for path in template_folder().rglob("*.j2")}
    assert {branch.partition(":")[0] for branch in counted.may_fail_of_branch} <= files
    without_branches = {name for name in files if not re.search(r"\{%-? *(if|for)\b", _text(name))}
    assert files - without_branches == {branch.partition(":")[0] for branch in counted.may_fail_of_branch}


def _text(name):
    return (template_folder() / name).read_text()


@pytest.mark.slow
def test_every_branch_is_taken(counted):
    assert [branch for branch in counted.may_fail_of_branch if not counted.counts[branch]] == []


@pytest.mark.slow
def test_every_condition_without_an_alternative_also_fails(counted):
    always = [
        branch
        for branch, may_fail in counted.may_fail_of_branch.items()
        if may_fail and counted.counts[f"{branch} reached"] == counted.counts[branch]
    ]
    assert always == []


def test_templates_decide_nothing():
    """Loops, macros, includes, and `if` on something that has a name: no arithmetic, no comparison."""
    for path in sorted(template_folder().rglob("*.j2")):
        for tag in re.findall(r"\{%-?(.*?)-?%\}", path.read_text()):
            words = tag.split()
            if words[0] in ("if", "elif"):
                assert re.fullmatch(r"(el)?if (not )?[\w.]+( is \w+)?", " ".join(words)), f"{path.name}: {tag}"
        for value in re.findall(r"\{\{(.*?)\}\}", path.read_text()):
            assert not re.search(r"[-+*/%<>~]|==", value.replace("-}}", "").strip(" -")), f"{path.name}: {value}"
