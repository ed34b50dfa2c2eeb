"""Worker process `python -m cugen.tune.timing.worker`: checks and times candidates on its visible GPU.

Protocol: one JSON object per line on standard input, one JSON line on standard output for each:

- `{"open": SPEC, "dynamic": {…}, "seed": N, "untuned": CODE}` → `{"opened": true}`; SPEC is a pickle in base 64, CODE
  is `{"number": N, "source": "…", "manifest": "…"}`.
- `{"ready": true}` → `{"ready": true}` after what needs no GPU: libraries are loaded, and, once a spec is open, its
  reference is computed.
- `{"time": [CODE, …], "samples": N, "budget_us": N, "hopeless": RATIO}` → `{"times": {"N": [COLD, WARM]}, "same_bits":
  {"N": true}, "failed": {"N": "why"}, "stopped": [N]}`. New candidates are checked first, and before all the code of
  `open`; the first one is `stopped` after a few samples if it takes more than RATIO times as long as the last.
- `{"fault": "why"}` replaces any answer, and the process ends.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from cugen.abi.errors import RunError
from cugen.abi.manifest import Manifest, ScalarArgument
from cugen.bench.buffers import Buffers
from cugen.bench.check import Expected, check_against, expected, inputs_of
from cugen.bench.protocol import Contender, Plan, Times, measure
from cugen.bench.session import Session, session
from cugen.runtime.call.callable import GpuFunction
from cugen.runtime.inputs import draw, known_params
from cugen.spec.model import Spec
from cugen.toolchain.errors import CompileError
from cugen.tune.timing.orphans import end_with_parent

Message = dict[str, Any]
_SCREENING_SAMPLES = 5  # samples before a slow candidate is stopped (heuristic)


class _Wrong(Exception):
    """A candidate has wrong results."""


class Bench:
    """Benchmark of one spec on one GPU: buffers, expected outputs, and the candidates checked so far."""

    def __init__(self, opened: Session, message: Message) -> None:
        self._session = opened
        spec: Spec = pickle.loads(base64.b64decode(message["open"]))
        self._dynamic: Mapping[str, int] = message["dynamic"]
        self._untuned = message["untuned"]
        manifest = Manifest.from_json(self._untuned["manifest"])
        params = known_params(spec, self._dynamic)
        seed = message["seed"]
        self._buffers = Buffers(opened, spec, manifest, params, seed)
        drawn = draw(replace(spec, arrays=(), statements=()), params, seed).scalars
        self._scalars = {a.name: drawn[a.name] for a in manifest.arguments if isinstance(a, ScalarArgument)}
        inputs = inputs_of(opened, self._buffers)
        self._expect = partial(expected, inputs, spec, self._buffers, self._dynamic, self._scalars, seed)
        self._flushed = 0 if self._buffers.exceeds_the_cache else opened.allocate(3 * opened.l2_bytes)
        self._outputs = [p for p in self._buffers.layout if p.argument.role != "input"]
        self._kept = {p.argument.name: opened.allocate(p.bytes) for p in self._outputs}
        self._same_bits: dict[int, bool] = {}
        self._contenders: dict[int, Contender] = {}

    @cached_property
    def expected(self) -> Expected:
        """The reference's results. Computing them needs no GPU."""
        return self._expect()

    def time(self, message: Message) -> Message:
        """Answers a request for times."""
        failed: dict[str, str] = {}
        contenders: list[Contender] = []
        if not self._contenders:
            self._check(self._untuned)
        for code in message["time"]:
            try:
                if code["number"] not in self._contenders:
                    self._check(code)
                contenders.append(self._contenders[code["number"]])
            except (_Wrong, CompileError) as error:
                failed[str(code["number"])] = str(error).splitlines()[0]
        answer: Message = {"failed": failed, "times": {}, "same_bits": {}, "stopped": []}
        if failed or not contenders:
            return answer
        first, last = contenders[0].name, contenders[-1].name
        timings = self._measured(contenders, _SCREENING_SAMPLES, message["budget_us"])
        if timings["cold"][first].median > message["hopeless"] * timings["cold"][last].median:
            answer["stopped"] = [int(first)]
        elif message["samples"] > _SCREENING_SAMPLES:
            timings = self._measured(contenders, message["samples"], message["budget_us"])
        answer["times"] = {c.name: [timings[regime][c.name].median for regime in ("cold", "warm")] for c in contenders}
        answer["same_bits"] = {c.name: self._same_bits[int(c.name)] for c in contenders}
        return answer

    def _measured(
        self, contenders: list[Contender], samples: int, budget_us: float
    ) -> Mapping[str, Mapping[str, Times]]:
        flush = (lambda: self._session.read(self._flushed, 3 * self._session.l2_bytes)) if self._flushed else None
        plan = Plan(self._buffers.count, flush, samples, budget_us)
        return {str(regime): times for regime, times in measure(contenders, self._session, plan).items()}

    def _check(self, code: Message) -> None:
        """Runs new code once on fresh buffers; compares its outputs with the reference, and bitwise with those of the
        first candidate. Raises _Wrong."""
        number = code["number"]
        function = GpuFunction(code["source"], Manifest.from_json(code["manifest"]))
        calls = [{**self._buffers.arrays(n), **self._scalars, **self._dynamic} for n in range(self._buffers.count)]
        contender = Contender(str(number), lambda n: function(stream=self._session.stream, **calls[n]))
        if self._contenders:
            self._buffers.renew()
        contender.run(0)
        verdict = check_against(self.expected, self._session, self._buffers)
        if not verdict.passed:
            raise _Wrong(f"wrong results: {verdict.messages[0]}")
        same = True
        for output in self._outputs:
            reference, address = self._kept[output.argument.name], self._buffers.address(output.argument.name)
            if self._contenders:
                same = same and not self._session.count_different(address, reference, output.bytes)
            else:
                self._session.copy(reference, address, output.bytes)
        self._same_bits[number] = same
        self._contenders[number] = contender


def main() -> int:
    """Answers requests until the end of standard input. Output of libraries is redirected to standard error."""
    end_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(content: Message) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    try:
        with session() as opened:
            bench: Bench | None = None
            for line in sys.stdin:
                message = json.loads(line)
                if "open" in message:
                    bench = Bench(opened, message)
                    answer({"opened": True})
                elif "ready" in message:
                    if bench is not None:
                        _ = bench.expected
                    answer({"ready": True})
                elif bench is not None:
                    answer(bench.time(message))
    except (RunError, MemoryError, _Wrong, CompileError) as error:
        # After a fault the CUDA context is invalid; only a new process can continue.
        answer({"fault": (str(error) or type(error).__name__).splitlines()[0]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
