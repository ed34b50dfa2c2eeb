"""Predictions of Nsight Compute counters for a launch, from the accesses of the plan as compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import THREAD
from cugen.analysis.verdicts.constant_reasons import doubt
from cugen.compiled.accesses import CompiledAccess
from cugen.compiled.kernels import CompiledKernel
from cugen.compiled.sass import Instruction
from cugen.compiled.tensor_copies import CompiledCopy
from cugen.machine import target
from cugen.machine.requests.boxes import LINE_BYTES
from cugen.machine.requests.warp import SECTOR_BYTES, WORD_BYTES
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore, Wgmma


@dataclass(frozen=True)
class Prediction:
    """Value of a counter over one launch; None, with a `reason`, if unknown.

    uncounted: addresses of compiler-generated instructions that add one per execution, with unknown execution
    counts."""

    value: int | None
    reason: str = ""
    uncounted: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Counter:
    space: str
    kind: str
    of: Callable[[Totals], int] | None  # None: counts executions, independent of addresses


def _wavefronts(totals: Totals) -> int:
    return totals.wavefronts


def _sectors(totals: Totals) -> int:
    return totals.sectors


_COUNTERS = {
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": _Counter("shared", "load", _wavefronts),
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": _Counter("shared", "store", _wavefronts),
    "smsp__sass_inst_executed_op_shared_ld.sum": _Counter("shared", "load", None),
    "smsp__sass_inst_executed_op_shared_st.sum": _Counter("shared", "store", None),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": _Counter("global", "load", _sectors),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": _Counter("global", "store", _sectors),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": _Counter("global", "load", None),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": _Counter("global", "store", None),
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum": _Counter("shared", "async_copy", _wavefronts),
    "smsp__sass_inst_executed_op_ldgsts.sum": _Counter("shared", "async_copy", None),
}
CONSTANT_REQUESTS = "idc__requests.sum"
CONSTANT_REPLAYS = "sm__idc_divergent_instruction_replays.sum"
METRICS = (*_COUNTERS, CONSTANT_REQUESTS, CONSTANT_REPLAYS)
# Of kernels with wgmma and TMA. What each counts was measured on an H200.
OPERAND_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
WGMMAS = "sm__inst_executed_pipe_tensor_op_gmma.sum"  # once for each warp
COPIED_BYTES = "l1tex__m_xbar2l1tex_read_bytes.sum"
WORDS_READ, WORDS_WRITTEN = "l1tex__data_bank_reads.sum", "l1tex__data_bank_writes.sum"
ASYNC_METRICS = (OPERAND_WAVEFRONTS, WGMMAS, COPIED_BYTES, WORDS_READ, WORDS_WRITTEN)
_WORDS_OF_WAVEFRONT = LINE_BYTES // WORD_BYTES  # that wgmma reads
_WORDS_OF_BARRIER = 2  # that an initialisation reads


def predictions(kernel: CompiledKernel) -> Mapping[str, Prediction]:
    """Predicted counters of one launch, by the metric names of Nsight Compute, in the order of `METRICS`; of one with
    wgmma or TMA also those of `ASYNC_METRICS`."""
    counters = {metric: _sum(kernel, counter) for metric, counter in _COUNTERS.items()}
    addressed = _constant_loads(kernel)
    executions, uncounted = _known_loads(kernel)
    requests, reason = addressed.value, addressed.reason
    if any(i.predicate for i in kernel.program.instructions if i.address in uncounted):
        requests, reason = None, "compiler-generated loads are predicated, and the predicates are not derived"
    counters[CONSTANT_REQUESTS] = Prediction(None if requests is None else requests + executions, reason, uncounted)
    replays = [t.requests - t.warps for a in kernel.accesses if a.space == "constant" for t in a.compiled or ()]
    counters[CONSTANT_REPLAYS] = Prediction(sum(replays)) if addressed.value is not None else addressed
    if reason := doubt(kernel.constant_bytes, target(kernel.target)):
        counters |= dict.fromkeys((CONSTANT_REQUESTS, CONSTANT_REPLAYS), Prediction(None, f"unproved: {reason}"))
    if kernel.copies or any(isinstance(mma.node, Wgmma) for mma in kernel.mmas):
        counters |= _async_counters(kernel)
    return counters


def _async_counters(kernel: CompiledKernel) -> Mapping[str, Prediction]:
    """What TMA and wgmma add to the counters. Those of words and bytes count global accesses of threads, too, which are
    not predicted."""
    wgmmas = [mma for mma in kernel.mmas if isinstance(mma.node, Wgmma)]
    loads = [copy for copy in kernel.copies if isinstance(copy.node, TensorLoad)]
    stores = [copy for copy in kernel.copies if isinstance(copy.node, TensorStore)]
    operands = _sum_of([mma.wavefronts for mma in wgmmas])
    counters = {
        OPERAND_WAVEFRONTS: operands,
        WGMMAS: _sum_of([mma.executions for mma in wgmmas]),
        COPIED_BYTES: _sum_of([_received_bytes(copy) for copy in loads]),
        WORDS_READ: _sum_of(
            [
                operands.value and operands.value * _WORDS_OF_WAVEFRONT,
                kernel.barriers * _WORDS_OF_BARRIER,
                *(copy.words for copy in stores),
            ]
        ),
        WORDS_WRITTEN: _sum_of([*(copy.words for copy in loads), *map(_stored_words, kernel.accesses)]),
    }
    if any((access.space, access.access.kind) != ("shared", "store") for access in kernel.accesses):
        others = Prediction(None, "threads access memory by more than stores to shared memory")
        counters |= dict.fromkeys((COPIED_BYTES, WORDS_READ, WORDS_WRITTEN), others)
    return counters


def _received_bytes(copy: CompiledCopy) -> int | None:
    """Bytes that multiprocessors receive; each block of a multicast gets them all."""
    blocks = copy.node.blocks if isinstance(copy.node, TensorLoad) else 1
    return None if copy.sectors is None else copy.sectors * SECTOR_BYTES * blocks


def _sum_of(parts: Sequence[int | None]) -> Prediction:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Prediction(None, "the executions of an instruction, or what it accesses, are unknown")
    return Prediction(sum(known))


def _stored_words(access: CompiledAccess) -> int | None:
    """32-bit words that an access stores, of elements of at least one."""
    if access.lanes is None or any(i.bytes % WORD_BYTES for i in access.instructions):
        return None
    widths = {i.bytes for i in access.instructions}
    return access.lanes * widths.pop() // WORD_BYTES if len(widths) == 1 else None


def _sum(kernel: CompiledKernel, counter: _Counter) -> Prediction:
    total = 0
    for access in kernel.accesses:
        space = "shared" if access.space == "generic" else access.space  # distributed shared memory
        if space == counter.space and access.access.kind == counter.kind:
            if _is_of_one_block(access):
                why = "warps that access another block's shared memory aren't counted"
                return Prediction(None, f"{access.access.array.symbol}, line {access.line}: {why}")
            value = _value(access, counter)
            if value is None:
                return Prediction(None, f"{access.access.array.symbol}, line {access.line}: {access.reason}")
            total += value
    kinds = [(counter.space, counter.kind)]
    if kinds == [("global", "load")]:
        kinds.append(("shared", "async_copy"))  # the source of an asynchronous copy counts as a load
    strangers = [i for i in kernel.unexplained if (i.space, i.kind) in kinds]
    if strangers:
        return Prediction(None, f"unexplained: {strangers[0].opcode} at {strangers[0].address:#x}")
    return Prediction(total)


def _is_of_one_block(access: CompiledAccess) -> bool:
    """Whether all lanes of a warp access the shared memory of the same block of the cluster."""
    rank = access.access.rank
    return rank is not None and not rank.free_symbols & set(THREAD)


def _value(access: CompiledAccess, counter: _Counter) -> int | None:
    if counter.of is None or access.compiled is None:
        return access.executions if counter.of is None else None
    return sum(counter.of(totals) for totals in access.compiled)


def _constant_loads(kernel: CompiledKernel) -> Prediction:
    """Requests of the constant loads with a register address."""
    total = 0
    for access in kernel.accesses:
        if access.space == "constant":
            if access.compiled is None:
                return Prediction(None, f"{access.access.array.symbol}, line {access.line}: {access.reason}")
            total += sum(totals.requests for totals in access.compiled)
    return Prediction(total)


def _known_loads(kernel: CompiledKernel) -> tuple[int, tuple[int, ...]]:
    """Executions of the loads at constant-bank addresses known at compile time, such as arguments, and the addresses of
    those with unknown execution counts. Each execution is one request of any width."""
    total = 0
    uncounted: list[int] = []
    loads_by_user: dict[int, tuple[CompiledAccess, list[tuple[int, int]]]] = {}
    for instruction in kernel.program.instructions:
        if instruction.name != "LDC" or re.search(r"\[[^\]]*R\d", instruction.operands[-1]):
            continue
        executions = None if instruction.predicate else _executions(kernel, instruction)
        if executions is not None:
            total += executions
        elif user := _user(kernel, instruction):
            access, address = user
            loads_by_user.setdefault(id(access), (access, []))[1].append((instruction.address, address))
        else:
            uncounted.append(instruction.address)
    for access, pairs in loads_by_user.values():
        users = [address for _, address in pairs]
        times = {users.count(i.address) for i in access.instructions}
        if access.executions is None or len(times) > 1:
            uncounted += [load for load, _ in pairs]
        else:
            total += access.executions * times.pop()
    return total, tuple(sorted(uncounted))


def _executions(kernel: CompiledKernel, instruction: Instruction) -> int | None:
    """Warp-level executions of an unpredicated instruction: all warps before the first branch, else as for an access in
    the same basic block; None if unknown."""
    program = kernel.program
    block = program.block_of(instruction)
    if block == program.block_starts[0]:
        return kernel.warps
    for access in kernel.accesses:
        same_block = all(program.block_of(i) == block and not i.predicate for i in access.instructions)
        if same_block and access.instructions and access.executions is not None:
            return access.executions // len(access.instructions)
    return None


def _user(kernel: CompiledKernel, instruction: Instruction) -> tuple[CompiledAccess, int] | None:
    """The access that uses a loaded pointer, and the address of its instruction: the next one in the block under the
    same predicate. None if the predicate changes in between."""
    program = kernel.program
    block = program.block_of(instruction)
    behind = [
        (i.address, n)
        for n, access in enumerate(kernel.accesses)
        for i in access.instructions
        if i.address > instruction.address and i.predicate == instruction.predicate and program.block_of(i) == block
    ]
    if not behind:
        return None
    address, number = min(behind)
    register = instruction.predicate.lstrip("!")
    between = [i for i in program.instructions if instruction.address < i.address < address]
    if register and any(register in i.operands[:2] or i.name == "R2P" for i in between):
        return None
    return kernel.accesses[number], address
