"""Right kernels pass and wrong ones don't; the device is NumPy, with a mistake of the test's choice."""

from collections.abc import Callable

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry, Manifest
from cugen.runtime import verify as verifying
from cugen.runtime.buffers import view
from cugen.runtime.device import Fault, Job, Outcome
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import Run, sample, verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

MATMUL = """
cugen: 1
kernel: mm
params: {M: 20, K: 13, N: 9}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32, pitch: 12}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


class NumpyDevice:
    """Computes C = A · B in float32, then does `mistake` to the buffers."""

    name = "numpy"

    def __init__(self, mistake: Callable[[dict, Job], None] | None = None, faults: tuple[Fault, ...] = ()) -> None:
        self.mistake = mistake
        self.faults = faults
        self.jobs: list[Job] = []

    def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        buffers = {name: buffer.copy() for name, buffer in job.buffers.items()}
        a, b, c = (view(buffers[argument.name], argument, {}) for argument in job.manifest.arguments)
        c[...] = a @ b
        if self.mistake:
            self.mistake(buffers, job)
        return Outcome(buffers, faults=self.faults)


@pytest.fixture
def spec() -> Spec:
    return load_text(MATMUL)[0]


@pytest.fixture
def manifest(argument) -> Manifest:
    arguments = (
        argument((20, 13), name="A"),
        argument((13, 9), name="B"),
        argument((20, 9), (12, 1), name="C", role="output", elements=240),
    )
    launch = LaunchEntry("mm", (1, 1, 1), (32, 1, 1), 0, 0, ("A", "B", "C"), "")
    return Manifest("mm", "1", "mm.yaml", "", "sm_90", {"M": 20, "K": 13, "N": 9}, arguments, (), (), (launch,))


@pytest.fixture
def check(spec, manifest) -> Callable[..., Run]:
    return lambda device, **options: verify(spec, "source", manifest, device, **options)


def test_a_right_kernel_passes_on_random_numbers_and_on_small_integers(check) -> None:
    device = NumpyDevice()
    run = check(device)
    result = run.verification
    assert result.passed
    assert result.messages == ()
    assert result.checked == "all"
    assert 0 < result.max_abs_error <= result.tolerance < 1e-4
    assert 0 < result.max_rel_error
    assert run.outputs["C"].shape == (20, 9)
    random, whole = device.jobs
    assert not np.array_equal(random.buffers["A"], np.rint(random.buffers["A"]))
    assert np.array_equal(whole.buffers["A"], np.rint(whole.buffers["A"]))


def test_the_two_runs_have_different_poison(check) -> None:
    device = NumpyDevice()
    check(device)
    first, second = (job.buffers["C"].view(np.uint32) for job in device.jobs)
    assert (first != second).all()


def test_the_worst_element_is_named_with_its_numbers(check) -> None:
    def mistake(buffers: dict, job: Job) -> None:
        buffers["C"][12 * 3 + 4] += 0.25
        buffers["C"][12 * 5 + 6] += 0.5

    result = check(NumpyDevice(mistake)).verification
    assert not result.passed
    assert result.worst.array == "C"
    assert result.worst.index == (5, 6)
    assert result.worst.difference == pytest.approx(0.5, rel=1e-3)
    assert result.max_abs_error == pytest.approx(0.5, rel=1e-3)
    assert 0 < result.worst.allowed < 1e-4
    (message,) = result.messages
    assert message.startswith("C: 2 of 180 elements differ; the worst: C[5, 6] is ")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_nan_or_infinity_where_a_number_belongs_is_an_error(check, wrong: float) -> None:
    result = check(NumpyDevice(lambda buffers, job: buffers["C"].__setitem__(0, wrong))).verification
    assert not result.passed
    assert result.worst.index == (0, 0)


def test_an_error_too_small_for_random_numbers_shows_on_integers(check) -> None:
    def mistake(buffers: dict, job: Job) -> None:
        buffers["C"][0] = np.nextafter(buffers["C"][0], np.float32(np.inf))

    result = check(NumpyDevice(mistake)).verification
    assert not result.passed
    assert result.messages[0].startswith("on small integers: C: 1 of 180 elements differ")


def test_elements_that_were_not_written_are_counted(check) -> None:
    def mistake(buffers: dict, job: Job) -> None:
        buffers["C"][12 * 19 :] = job.buffers["C"][12 * 19 :]

    messages = check(NumpyDevice(mistake)).verification.messages
    assert messages[0] == "C: 9 of 180 elements were not written, the first at [19, 0]"


def test_a_write_into_the_gap_of_a_pitch_is_an_error(check) -> None:
    messages = check(NumpyDevice(lambda buffers, job: buffers["C"].__setitem__(slice(9, 11), 0))).verification.messages
    assert messages == ("C: 2 elements of its pitch padding were written, the first at 9",)


def test_a_changed_input_is_an_error(check) -> None:
    messages = check(NumpyDevice(lambda buffers, job: buffers["B"].__setitem__(7, 0))).verification.messages
    assert messages == ("B is an input and was changed, first at element 7 of its buffer",)


def test_a_fault_fails_a_run_whose_numbers_are_right(check) -> None:
    result = check(NumpyDevice(faults=(Fault("race", "two threads touch As[0]", 41),))).verification
    assert not result.passed
    assert result.messages == ("race: two threads touch As[0] (line 41)",)


def test_an_output_that_never_came_back_is_an_error(check) -> None:
    run = check(NumpyDevice(lambda buffers, job: buffers.clear()))
    assert run.verification.messages == ("C: the device returned no buffer",)
    assert run.outputs == {}


def test_given_inputs_are_run_alone(check) -> None:
    given = Inputs({"A": np.ones((20, 13), np.float32), "B": np.ones((13, 9), np.float32)}, {})
    device = NumpyDevice()
    run = check(device, inputs=given)
    assert run.verification.passed
    assert len(device.jobs) == 1
    assert (run.outputs["C"] == 13).all()


def test_large_problems_compare_a_sample_and_say_so(check, monkeypatch) -> None:
    monkeypatch.setattr(verifying, "MAX_REFERENCE_OPERATIONS", 10)
    monkeypatch.setattr(verifying, "SAMPLED_ELEMENTS", 20)
    result = check(NumpyDevice()).verification
    assert result.passed
    assert result.checked.startswith("sample of ")
    assert 4 <= int(result.checked.split()[-1]) <= 24


def test_a_sample_still_sees_elements_that_were_not_written(check, monkeypatch) -> None:
    monkeypatch.setattr(verifying, "MAX_REFERENCE_OPERATIONS", 10)
    monkeypatch.setattr(verifying, "SAMPLED_ELEMENTS", 1)
    left_out = 12 * 9 + 4

    def mistake(buffers: dict, job: Job) -> None:
        buffers["C"][left_out] = job.buffers["C"][left_out]

    messages = check(NumpyDevice(mistake)).verification.messages
    assert messages == ("C: 1 of 180 elements were not written, the first at [9, 4]",)


def test_a_sample_has_the_corners_and_depends_on_the_seed(spec) -> None:
    known = {"M": 20, "K": 13, "N": 9}
    numbers = sample(spec, known, seed=1)["C"]
    assert {0, 8, 19 * 9, 19 * 9 + 8} <= set(numbers.tolist())
    assert np.array_equal(numbers, sample(spec, known, seed=1)["C"])
    assert (np.diff(numbers) > 0).all()


def test_a_wild_subscript_is_an_error_of_the_inputs(argument) -> None:
    text = """
cugen: 1
kernel: pick
params: {N: 5}
arrays:
  ids: {shape: [N], dtype: int32}
  table: {shape: [7], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = table[ids[i]]
"""
    spec = load_text(text)[0]
    arguments = tuple(argument((n,), name=name) for name, n in (("ids", 5), ("table", 7), ("y", 5)))
    manifest = Manifest("pick", "1", "", "", "sm_90", {"N": 5}, arguments, (), (), ())
    wild = Inputs({"ids": np.array([0, 1, 2, 7, 3], np.int32), "table": np.ones(7, np.float32)}, {})
    with pytest.raises(RunError, match="CG5015"):
        verify(spec, "", manifest, NumpyDevice(), inputs=wild)
