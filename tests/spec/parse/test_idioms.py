"""What people write who come from C, CUDA, NumPy or PyTorch is answered with the spelling of this language."""

from __future__ import annotations

import re

import pytest

from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

LOOP = "an index runs over the array by itself: `y[i] = 2 * x[i]`; what adds up is `y[i] = sum(x[i, k], k)`"
THREAD = "name an index in place of the thread: `y[i] = 2 * x[i]`; `schedule` says how blocks and threads share them"
BRANCH = "each element has one value: `y[i] = a if condition else b`"
RANDOM = "there are no random numbers; declare an array that the caller fills with them, and read it: `r[i]`"
SLICE = "name an index instead of a slice: `A[i, j]`; of a part that begins at `b`, element i is `A[b + i]`"
DECLARATION = "a temporary has no declaration, and names its indices: `t[i] = 2 * x[i]`"
POINTER = "there are no pointers: an element is read and written by its subscripts, as in `y[i] = 2 * x[i]`"
ATOMIC = (
    "each element is written once: write `y[i] += value`; a histogram is a sum, `h[b] = sum(where(x[i] == b, 1, 0), i)`"
)
METHOD = "a reduction is a function, and names its index: `sum(x[i, k], k)`"


def refusals(statement: str, target: str = "sm_90") -> list[tuple[str, str]]:
    """Message and help of each error of a spec with one statement, but for arrays that it doesn't use."""
    text = f"""\
cugen: 1
kernel: k
target: {target}
params: {{N: 40, M: 30}}
arrays:
  x: {{shape: [N, M], dtype: float32}}
  t: {{shape: [N], dtype: int32}}
  y: {{shape: [N], dtype: float32}}
compute: |
  {statement}
"""
    try:
        load_text(text)
    except SpecError as error:
        return [(d.message, d.help) for d in error.diagnostics if d.code != "CG1312"]
    return []


@pytest.mark.parametrize(
    ("statement", "spelling", "help"),
    [
        ("for i in range(N): y[i] = x[i, 0]", "for", LOOP),
        ("for i in range(N):\n    y[i] = x[i, 0]", "for", LOOP),
        ("for (int i = 0; i < N; i++) y[i] = x[i, 0];", "for", LOOP),
        ("while (i < N) y[i] = x[i, 0];", "while", LOOP),
        (
            "y[i] = sum(x[i, j] for j in range(M))",
            "for j in",
            "name the index last: `sum(x[i, k], k)` is the sum over k",
        ),
        ("y[i] = sum(x[i, j] for j)", "for j", "name the index last: `sum(x[i, k], k)` is the sum over k"),
        ("if x[i, 0] > 0: y[i] = 1", "if", BRANCH),
        ("y[i] = x[i, 0] > 0 ? x[i, 0] : 0", "?", "write `a if condition else b`, or `where(condition, a, b)`"),
        ("y[i] = x[threadIdx.x, 0]", "threadIdx.x", THREAD),
        ("y[i] = np.random.rand(i)", "np.random.rand", RANDOM),
        ("y[i] = np.exp(x[i, 0])", "np.exp", "functions have no module: `exp`"),
        ("y[i] = torch.nn.functional.relu(x[i, 0])", "torch.nn.functional.relu", "functions have no module: `relu`"),
        ("y[i] = std::exp(x[i, 0])", "std::exp", "functions have no module: `exp`"),
        ("y[i] = x[i:j]", ":", SLICE),
        ("y[i] = x[i, ...]", "...", "name an index for each dimension: `A[i, j]`"),
        ("// twice\n  y[i] = x[i, 0]", "//", "a comment begins with `#`"),
        ("/* twice */ y[i] = x[i, 0]", "/*", "a comment begins with `#`"),
        ("float u = x[i, 0]", "float", DECLARATION),
        ("const unsigned int u = 3", "const unsigned int", DECLARATION),
        ("__shared__ float u[32]", "__shared__ float", DECLARATION),
        ("int u = threadIdx.x", "threadIdx.x", THREAD),
        ("y[i] = x[tl.program_id(0), 0]", "tl.program_id", THREAD),
        ("y[i] = tl.load(x + i)", "tl.load", POINTER),
        ("tl.store(y + offsets, u)", "tl.store", POINTER),
        ("atomicAdd(&y[t[i]], 1)", "atomicAdd", ATOMIC),
        ("atomicAdd(y[i], 1)", "atomicAdd", ATOMIC),
        ("y[i] = x[i, 0].astype(float16)", ".astype", "write `cast(x, float32)`"),
        ("y[i] = x[i, j].sum(axis=1)", ".sum", METHOD),
        ("y = x.T", ".T", "swap the indices: `x[j, i]`"),
        ("y[i] = x.shape", ".shape", "write the param of the extent, such as `N`"),
        ("y[i] = x[i, 0] && x[i, 1]", "&&", "write `and`"),
        ("y[i] = x[i, 0] || x[i, 1]", "||", "write `or`"),
        ("y[i] = !x[i, 0]", "!", "write `not`"),
    ],
)
def test_a_spelling_of_another_language_gets_one_error_with_the_spelling_here(
    statement: str, spelling: str, help: str
) -> None:
    assert refusals(statement) == [(f"`{spelling}` isn't part of the expression language", help)]


@pytest.mark.parametrize(
    ("call", "help"),
    [
        ("rand()", RANDOM),
        ("curand_uniform(i)", RANDOM),
        ("fmaxf(x[i, 0], 0)", "write `maximum(a, b)`"),
        ("fabsf(x[i, 0])", "write `abs(x)`"),
        ("__expf(x[i, 0])", "did you mean `exp`?"),
        ("matmul(x, x)", "write the matrix multiplication with indices: `sum(A[m, k] * B[k, n], k)`"),
        ("sort(x[i, j], j)", "there is no sort; call a library's before this kernel, such as CUB's"),
    ],
)
def test_a_function_of_another_library_is_answered_with_what_to_write(call: str, help: str) -> None:
    assert refusals(f"y[i] = {call}") == [(f"there is no function `{call.partition('(')[0]}`", help)]


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        ("sum(x, axis=1)", "sum(x[i, j], j)"),
        ("sum(x[k, m], axis=1)", "sum(x[k, m], m)"),
        ("max(x, dim=-1)", "max(x[i, j], j)"),
        ("mean(x, axis=0)", "mean(x[i, j], i)"),
        ("mean(2 * x[i, j], axis=1)", "mean(x[i, k], k)"),
    ],
)
def test_the_number_of_an_axis_is_answered_with_the_name_of_its_index(call: str, cure: str) -> None:
    function, option = call.partition("(")[0], re.findall(r"(\w+)=", call)[0]
    help = f"name the index that it runs over: `{cure}`"
    assert refusals(f"y[i] = {call}") == [(f"`{function}` has no option `{option}`", help)]


def test_a_call_is_no_statement_and_what_to_write_is_said() -> None:
    help = "leave it out; cugen places the barriers"
    assert refusals("__syncthreads()") == [("this isn't a statement", help)]


@pytest.mark.parametrize("value", ["*x", "&x[i, 0]", "2 * *x"])
def test_a_pointer_is_answered_with_subscripts(value: str) -> None:
    assert [help for _, help in refusals(f"y[i] = {value}")] == [POINTER]


@pytest.mark.parametrize(
    ("call", "cure"),
    [("sum(x)", "sum(x[i, j], j)"), ("max(t)", "max(t[i], i)"), ("sum(2 * x[i, j])", "sum(x[i, k], k)")],
)
def test_a_reduction_without_an_index_is_answered_with_one(call: str, cure: str) -> None:
    message = f"`{call.partition('(')[0]}` needs the name of an index"
    assert refusals(f"y[i] = {call}") == [(message, f"name the index that it runs over: `{cure}`")]


@pytest.mark.parametrize(
    ("text", "help"),
    [
        (
            "params: {a: 2.5}",
            "a number that isn't an integer is declared under `scalars`: `a: {dtype: float32, value: 2.5}`",
        ),
        ("arrays:\n  x: float32[8]", "write `{shape: [M, N], dtype: float32}`"),
        ("arrays: {x: {shape: N, dtype: float32}}", "write `[N]`"),
        ("arrays: {x: {shape: (N), dtype: float32}}", "a list has brackets: `[M, N]`"),
        ("arrays: {x: {dtype: float32, (N, N): 1}}", "a list has brackets: `[M, N]`"),
        ("arrays: {x: {shape: [8], dtype: float32, memory: __shared__}}", "did you mean `shared`?"),
        ("schedule: {block: 256}", "map index names to sizes, such as `{m: 16, n: 16}`"),
        (
            "compute: y[i] = x[i] > 0 ? x[i] : 0",
            "put text that holds `: ` between quotes, or write it as a block after `|`; "
            "a choice is `a if condition else b`",
        ),
        (
            "compute: for i in range(N): y[i] = x[i]",
            f"put text that holds `: ` between quotes, or write it as a block after `|`; {LOOP}",
        ),
        (
            "compute: if x[i] > 0: y[i] = x[i]",
            "put text that holds `: ` between quotes, or write it as a block after `|`; "
            "each element has one value: `y[i] = a if condition else b`",
        ),
        ("doc: nothing", "add `cugen: 1`"),
    ],
)
def test_a_declaration_as_in_another_language_is_answered_with_that_of_this_one(text: str, help: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(f"kernel: k\n{text}\n")
    assert help in [diagnostic.help for diagnostic in caught.value.diagnostics]


def test_adding_to_a_gathered_element_is_answered_with_a_sum_that_loads() -> None:
    message = "a subscript on the left that is read from an array can't be proved to write each element once"
    cure = "y[b] = sum(where(t[i] == b, x[i, 0], 0), i)"
    help = f"each element adds up what belongs to it: `{cure}`"
    assert refusals("y[t[i]] += x[i, 0]") == [(message, help)]
    assert refusals(cure) == []


def test_the_index_of_that_sum_is_none_of_the_statement() -> None:
    ((_, help),) = refusals("y[t[b]] += x[b, 0]")
    assert "`y[e] = sum(where(t[b] == e, x[b, 0], 0), b)`" in help


@pytest.mark.parametrize(
    ("target", "meant"),
    [("90", "sm_90"), ("sm90", "sm_90"), ("compute_80", "sm_80"), ("H100", "sm_90"), ("90a", "sm_90a")],
)
def test_a_target_by_another_name_is_answered_with_its_own(target: str, meant: str) -> None:
    assert refusals("y[i] = x[i, 0]", target) == [(f"there is no target `{target}`", f"did you mean `{meant}`?")]


@pytest.mark.parametrize("statement", ["y[i] = x[i, 0] ** 2", "y[i] = 1 if x[i, 0] > 0 else 0", "y[i] = x[i, 0] % 2"])
def test_what_is_spelt_as_in_python_is_accepted(statement: str) -> None:
    assert refusals(statement) == []


def test_words_of_loops_may_be_names() -> None:
    text = "cugen: 1\nkernel: k\narrays: {for: {shape: [8], dtype: float32}, y: {shape: [8], dtype: float32}}\n"
    (spec,) = load_text(text + "compute: y[while] = for[while]\n")
    assert spec.statements[0].target == "y"


@pytest.mark.parametrize(
    ("statement", "help"),
    [
        ("y[i] = 2.0f * x[i, 0]", "numbers have no suffix, and take the type of what is beside them: `2.0`"),
        ("y[i] = x[i, 0] * 1e-3F", "numbers have no suffix, and take the type of what is beside them: `1e-3`"),
        ("y[i] = t[i] & 0x1FULL", "numbers have no suffix, and take the type of what is beside them: `0x1F`"),
        ("y[i] = float(t[i])", "write `cast(x, float32)`"),
        ("y[i] = (float)t[i]", "write `cast(x, float32)`"),
        ("y[i] = cast(t[i], double)", "did you mean `float64`?"),
    ],
)
def test_literals_and_casts_of_c_are_answered_with_those_of_the_language(statement: str, help: str) -> None:
    assert [cure for _, cure in refusals(statement)] == [help]


def test_a_name_of_a_type_is_any_name_where_nothing_is_declared() -> None:
    assert refusals("float[i] = x[i, 0]\n  y[i] = float[i]") == []
    text = "cugen: 1\nkernel: k\nparams: {half: dynamic}\narrays: {y: {shape: [half], dtype: float32}}\n"
    with pytest.raises(SpecError, match="this isn't a condition on params"):
        load_text(f"{text}compute: y[i] = half\nrequire: [half and half > 2]\n")
