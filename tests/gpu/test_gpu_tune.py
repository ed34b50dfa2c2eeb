"""The tuner on the real thing: a worker's times are plausible, and the file that it gives makes the faster kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cugen.cli.main import main
from cugen.kernel import generate
from cugen.runtime.gpu import GpuDevice
from cugen.schedule.lock import read
from cugen.spec.load import load, load_text
from cugen.tune import Options, search
from cugen.tune.timing.gpus import gpus
from cugen.tune.timing.messages import opening, request
from cugen.tune.timing.workers import COMMAND, Process, WorkerFault

pytestmark = pytest.mark.gpu

COPY = """\
cugen: 1
kernel: copy
params: {N: 16777216}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i]
schedule: {vectors: 1}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))


def test_a_search_times_candidates_and_none_is_wrong(device: GpuDevice) -> None:
    (spec,) = load_text(COPY)
    outcome = search(spec, Options(budget_s=30))
    assert outcome.failures == ()
    assert outcome.progress.timed >= 3
    assert outcome.entry.time.cold <= outcome.entry.untuned.cold
    assert 20 < outcome.entry.time.cold < 5000
    assert not outcome.entry.reorders


def test_a_search_on_every_gpu_uses_them_all(device: GpuDevice) -> None:
    devices = gpus()
    if len(devices) < 2:
        pytest.skip("NO SECOND GPU, NOT TESTED")
    (spec,) = load_text(COPY)
    assert search(spec, Options(budget_s=30)).failures == ()
    assert len({gpu.uuid for gpu in devices}) == len(devices)


def test_the_command_writes_a_lock_that_generate_takes(
    device: GpuDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "total.yaml"
    file.write_text(
        "cugen: 1\nkernel: total\nparams: {M: 512, N: 4096}\narrays:\n  x: {shape: [M, N], dtype: float32}\n"
        "  y: {shape: [M], dtype: float32}\ncompute: y[i] = sum(x[i, j], j)\n"
    )
    assert main(["tune", str(file), "--budget", "20s"]) == 0
    assert "candidates timed" in capsys.readouterr().out
    (entry,) = read(tmp_path / "cugen.lock").entries
    assert entry.device == gpus()[0].name
    kernel = generate(replace(load(file), target=entry.target), lock=tmp_path / "cugen.lock")
    assert "from cugen.lock" in kernel.source


def test_a_kernel_that_faults_or_hangs_costs_its_process(device: GpuDevice) -> None:
    """The code of a right candidate, changed by hand."""
    (spec,) = load_text(COPY)
    kernel = generate(spec, analysis=False)
    right = {"number": 0, "source": kernel.source, "manifest": kernel.manifest.to_json()}
    start = kernel.source.index("{", kernel.source.index("__global__")) + 1
    for number, (body, said) in enumerate(
        [("\n    while (true) __nanosleep(1000);\n", "it hangs"), ("\n    __trap();\n", "failed")], 1
    ):
        process = Process(COMMAND, gpus()[0], 20.0)
        try:
            assert process.ask(opening(spec, {}, 0, right))["opened"] is True
            wrong = {**right, "number": number, "source": kernel.source[:start] + body + kernel.source[start:]}
            with pytest.raises(WorkerFault, match=said):
                process.ask(request([wrong, right], samples=5, budget_us=1e5))
        finally:
            process.close()
