"""Printing of asynchronous pipelines: mbarriers, TMA and wgmma."""

from __future__ import annotations

from dataclasses import replace

from cugen.emit.printer.nodes import NodePrinter
from cugen.plan.memory import Access
from cugen.plan.pipeline_nodes import (
    ArriveBarrier,
    AwaitBarrier,
    AwaitTensorStores,
    AwaitWgmmas,
    CommitTensorStores,
    CommitWgmmas,
    FenceBarrierInit,
    FenceProxy,
    FenceWgmma,
    InitBarrier,
    PipelineNode,
    PrefetchTensorMap,
    SetMaxRegisters,
    TensorLoad,
    TensorStore,
    Wgmma,
)
from cugen.plan.symbols import integer

HEADER = "cuda.h"  # of CUtensorMap, which file.cu.j2 declares for NVRTC


def pipeline_statement(node: PipelineNode, printer: NodePrinter) -> str:
    """The call of a statement's function, which is added to those of the file."""

    def call(name: str, *arguments: str, template: str = "") -> str:
        printer.functions.setdefault((name, ""))
        return f"{name}{template}({', '.join(arguments)});"

    match node:
        case PrefetchTensorMap():
            return call("prefetch_tensor_map", f"&{node.array.symbol}")
        case InitBarrier():
            return call("mbarrier_init", _address(node.barrier, printer), str(node.arrivals))
        case FenceBarrierInit():
            return call("mbarrier_init_fence")
        case ArriveBarrier(rank=rank) if rank is not None:
            return call("mbarrier_arrive_cluster", _address(node.barrier, printer), printer.integer(rank))
        case ArriveBarrier(expected_bytes=None):
            return call("mbarrier_arrive", _address(node.barrier, printer))
        case ArriveBarrier(expected_bytes=count) if count is not None:
            return call("mbarrier_arrive_expect_tx", _address(node.barrier, printer), printer.integer(count))
        case AwaitBarrier():
            return call("mbarrier_wait", _address(node.barrier, printer), printer.integer(node.parity))
        case TensorLoad():
            target, (tensor_map, *box) = _address(node.target, printer), _box(node.source, printer)
            barrier = _address(node.barrier, printer)
            if node.offsets:
                offsets = map(printer.integer, reversed(node.offsets))
                return call(f"tma_load_im2col_{len(box)}d", target, tensor_map, barrier, *box, *offsets)
            if node.blocks > 1:
                mask = str(sum(1 << node.stride * block for block in range(node.blocks)))
                mask += f" << {printer.integer(node.first)}" if node.first != 0 else ""
                return call(f"tma_load_{len(box)}d_multicast", target, tensor_map, barrier, mask, *box)
            return call(f"tma_load_{len(box)}d", target, tensor_map, barrier, *box)
        case TensorStore():
            source, (tensor_map, *box) = _address(node.source, printer), _box(node.target, printer)
            return call(f"tma_store_{len(box)}d", tensor_map, source, *box)
        case CommitTensorStores():
            return call("tma_store_commit")
        case AwaitTensorStores():
            return call("tma_store_wait_read", template=f"<{node.pending}>")
        case FenceProxy():
            return call("fence_proxy_async")
        case SetMaxRegisters():
            return call(f"setmaxnreg_{'inc' if node.increases else 'dec'}", template=f"<{node.count}>")
        case FenceWgmma():
            return call("wgmma_fence")
        case CommitWgmmas():
            return call("wgmma_commit")
        case AwaitWgmmas():
            return call("wgmma_wait", template=f"<{node.pending}>")
        case Wgmma():
            return _wgmma(node, printer)
    raise AssertionError(type(node).__name__)


def _wgmma(node: Wgmma, printer: NodePrinter) -> str:
    printer.functions.setdefault((node.name, ""))
    upper, lower = (_address(access, printer) for access in (node.acc_upper, node.acc_lower))
    a, b = _matrix(node.a, node.a_block_bytes, printer), _matrix(node.b, node.b_block_bytes, printer)
    layouts = ", ".join("true" if size else "false" for size in (node.a_block_bytes, node.b_block_bytes))
    template = f"<{layouts}>" if node.instruction.may_be_mn_major else ""
    return f"{node.name}{template}({upper}, {lower}, {a}, {b}, {printer.integer(node.k)} > 0);"


def _matrix(access: Access, block_bytes: int, printer: NodePrinter) -> str:
    """The descriptor of an operand: of the row or the block of its tile, and the k of the instruction, a constant that
    a compiler adds to it."""
    name = "mn_major_matrix" if block_bytes else "k_major_matrix"
    printer.functions.setdefault((name, ""))
    stage, row_or_block, k, *column = access.subscripts
    first = replace(access, subscripts=(stage, row_or_block, integer(0), *column))
    function = f"{name}<{block_bytes}>" if block_bytes else name
    descriptor = f"{function}(&{printer.lvalue(access, first)}, {printer.integer(k)})"
    printer.texts[access.serial] = f"{function}(&{printer.text(first)}, {printer.integer(k)})"
    return descriptor


def _address(access: Access, printer: NodePrinter) -> str:
    return f"&{printer.lvalue(access)}"


def _box(access: Access, printer: NodePrinter) -> tuple[str, ...]:
    """The tensor map, and the coordinates of a box, the contiguous dimension first."""
    printer.lvalue(access)
    return f"&{access.array.symbol}", *(printer.integer(sub) for sub in reversed(access.subscripts))
