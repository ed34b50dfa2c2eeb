"""Every branch of every template is taken by some kernel, and every condition fails for some other."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import jinja2
import pytest

import cugen.emit.host.embed
import cugen.emit.host.variants
from cugen.emit.environment import environment, template_folder
from cugen.emit.host.embed import Image
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.functions import function_text
from cugen.emit.source import render_raw
from cugen.kernel import generate
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses
from cugen.schedule.planner import make_plan
from cugen.schedule.splitting import plan_context
from cugen.spec.load import load_all, load_text
from cugen.spec.siblings import siblings
from cugen.spec.types import FLOAT32, INT32, UINT32

ROOT = Path(__file__).parents[2]
_BRANCH = re.compile(r"\s*\{%-? *(if|elif|else|for)\b.*%\}\s*")

# What the gallery has no use for: small arrays in registers and staged whole, temporaries in a workspace, conditions
# on data, uploads, tables, narrow types, launches that may be empty, windows of windows without taps, and all
# forms of reductions.
MORE = """
cugen: 1
kernel: staged
params: {M: dynamic, K: 4}
require: [M % 2 == 0]
scalars: {s: {dtype: float16, memory: constant}, v: {dtype: float32, value: 2.5}}
arrays:
  A: {shape: [M], dtype: float16, boundary: wrap}
  W: {shape: [K], dtype: float32, memory: register}
  T: {shape: [K], dtype: float32, memory: shared}
  R: {shape: [M], dtype: bool, memory: readonly}
  Y: {shape: [M], dtype: int8}
compute: |
  t = sum(A[k], k)
  Y[i] = cast(where(R[i], sum(W[q] * T[q] * A[i + q], q), t) * s * v + (A[i] if A[i] > 0 else A[M - 1 - i]), int8)
schedule: {family: direct}
---
cugen: 1
kernel: from_constants
arrays: {A: {shape: [8], dtype: float32, memory: constant}, Y: {shape: [8], dtype: float32}}
compute: Y[i] = A[3] * i
---
cugen: 1
kernel: blocks_wait
params: {N: 5000}
arrays: {A: {shape: [N], dtype: float32}, Y: {shape: [N], dtype: float32}}
compute: Y[i] = cumsum(A[i], i)
schedule: {algorithm: look_back}
---
cugen: 1
kernel: tiles_reduce_preceding
params: {N: 100000}
arrays: {A: {shape: [N], dtype: float32}, Y: {shape: [N], dtype: float32}}
compute: Y[i] = cumsum(A[i], i)
schedule: {algorithm: multi_pass}
---
cugen: 1
kernel: one_number
params: {P: {range: [0, 9]}, Q: {range: [0, 9]}}
require: ["(P - Q) % 3 == 0"]
arrays: {A: {shape: [8], dtype: float32}, y: {shape: [], dtype: float32}}
compute: y = sum(A[k], k)
schedule: {family: direct}
---
cugen: 1
kernel: on_the_host
params: {M: {range: [1, 100000]}, H: 400}
require: [M > H]
arrays: {Y: {shape: [M - 400], dtype: float32}}
compute: Y[i] = 1
---
cugen: 1
kernel: large_tiles
params: {N: 256}
arrays:
  A: {shape: [N, N], dtype: float32, memory: {space: shared, dynamic: true}}
  B: {shape: [N, N], dtype: float32, memory: {space: shared, dynamic: true}}
  C: {shape: [N, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
schedule: {block: {i: 128, j: 128}, thread: {i: 8, j: 8}, step: {k: 64}}
---
cugen: 1
kernel: without_taps
params: {H: 150, W: 204}
arrays:
  A: {shape: [H, W], dtype: float32, boundary: clamp}
  T: {shape: [H, W], dtype: float32, memory: shared, boundary: clamp}
  Y: {shape: [H, W], dtype: float32}
indices: {r: 5, s: 5}
compute: |
  T[y, x] = sum(A[y, x + s - 2], s)
  Y[y, x] = sum(T[y + r - 2, x], r)
---
cugen: 1
kernel: short_rows
arrays: {x: {shape: [1001, 3], dtype: float32}, y: {shape: [1001], dtype: float32}}
compute: y[i] = sum(x[i, j], j)
---
cugen: 1
kernel: full_short_rows
arrays: {x: {shape: [1024, 3], dtype: float32}, y: {shape: [1024], dtype: float32}}
compute: y[i] = sum(x[i, j], j)
---
cugen: 1
kernel: rows_of_odd_length
arrays: {x: {shape: [8, 1001], dtype: float16}, y: {shape: [8], dtype: float32}}
compute: y[i] = sum(x[i, j], j)
---
cugen: 1
kernel: reduced_outer_dimension
arrays: {x: {shape: [40, 300, 64], dtype: float32}, y: {shape: [300], dtype: float32}}
compute: y[i] = sum(x[k, i, j], k, j)
---
cugen: 1
kernel: two_stages
arrays: {x: {shape: [300, 513], dtype: float32}, y: {shape: [300], dtype: float32}}
compute: y[i] = sum((x[i, j] - max(x[i, k], k)) ** 2, j)
schedule: {family: reduce}
---
cugen: 1
kernel: normalised_columns
arrays: {x: {shape: [256, 300], dtype: float32}, y: {shape: [256, 300], dtype: float32}}
compute: y[i, j] = x[i, j] / sum(x[k, j], k)
---
cugen: 1
kernel: columns_within_a_warp
arrays: {x: {shape: [64, 300], dtype: float32}, y: {shape: [64, 300], dtype: float32}}
compute: y[i, j] = x[i, j] / sum(x[k, j], k)
schedule: {family: rowwise, rows: 8, threads: 4}
"""
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
    specs += load_text(MORE)
    for spec in specs:
        context, plan = plan_context(spec), make_plan(spec)
        first = next(iter(_accesses(plan))).serial
        render_raw(env, context, plan, Remarks({first: "said"}))
    # Helpers for types that those kernels don't ask for.
    for path in sorted((template_folder() / "functions").iterdir()):
        name = path.name.removesuffix(".cu.j2")
        generic = "template <" in path.read_text()
        for dtype in (FLOAT32, INT32, UINT32):
            function_text(env, name, "" if generic else c_name(dtype))
    env.get_template("umbrella.h.j2").render(name="all.h", lines=["one"], includes=["one.h"], version="1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cugen.emit.host.variants, "environment", lambda: env)
        patch.setattr(cugen.emit.host.embed, "environment", lambda: env)
        for kernel in map(generate, load_text(MORE)):
            image = Image(b"code", (kernel.spec.target,), "nobody")
            cugen.emit.host.embed.embed(kernel.context, kernel.plan, kernel.manifest, image)
        for text in (VARIANTS, PLAIN_VARIANTS, SIZE_VARIANTS):
            specs_of_text = load_text(text)
            (group,) = siblings(specs_of_text)
            made = [(kernel.context, kernel.plan, kernel.manifest) for kernel in map(generate, specs_of_text)]
            entries = [cugen.emit.host.variants.make_entry(*planned) for planned in made]
            cugen.emit.host.variants.variants_header(group, entries)
    return loader


def _accesses(plan):
    for kernel in plan.kernels:
        yield from accesses(kernel.body)


def test_every_template_is_rendered(counted):
    files = {path.relative_to(template_folder()).as_posix() for path in template_folder().rglob("*.j2")}
    assert {branch.partition(":")[0] for branch in counted.may_fail_of_branch} <= files
    without_branches = {name for name in files if not re.search(r"\{%-? *(if|for)\b", _text(name))}
    assert files - without_branches == {branch.partition(":")[0] for branch in counted.may_fail_of_branch}


def _text(name):
    return (template_folder() / name).read_text()


def test_every_branch_is_taken(counted):
    assert [branch for branch in counted.may_fail_of_branch if not counted.counts[branch]] == []


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
