"""Branches of machine code that may diverge, and what they tell about choices that compilers may branch on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.compiled import sass
from cugen.compiled.ptx_lines import check_same_compilation, source_lines
from cugen.compiled.sass import Instruction, Program
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import AcquireSpinWait, Copy, For, If, Load, Node, ReturnUnless
from cugen.plan.traversal.walking import walk_nodes
from cugen.toolchain.binary.disassembler import disassemble

BRANCHES = "as compiled, it branches"

_INDIRECT = ("BRX", "JMX")
_CONDITIONAL = ("BRA", "CALL", "EXIT", "RET", "JMP")
_CONVERGENCE = "DIV"  # suffix of a branch that tests whether the warp has diverged, before a warp collective


def programs(image: bytes, ptx: str) -> Mapping[str, Program]:
    """The SASS of each kernel, with the lines of the .cu. Raises ToolMissing without nvdisasm, ValueError for the PTX
    of another cubin."""
    check_same_compilation(image, ptx)
    return sass.parse(disassemble(image, lines="ptx"), source_lines(ptx))


def divergent_branches(program: Program) -> Iterator[Instruction]:
    """The instructions at which the lanes of a warp may part. Those with a uniform predicate are none."""
    for instruction in program.instructions:
        guard = instruction.predicate or _operand_predicate(instruction)
        is_conditional = instruction.name in _CONDITIONAL and guard and "UP" not in guard
        if (is_conditional or instruction.name in _INDIRECT) and _CONVERGENCE not in instruction.opcode.split("."):
            yield instruction


def explained_lines(facts: Facts, kernel: Kernel, lines: Mapping[int, range]) -> set[int]:
    """The lines of all branches of the plan, and of the expressions that may branch."""
    nodes: list[Node] = [node for branch in facts.branches for node in branch.nodes]
    nodes += [node for node in walk_nodes(kernel.body) if _is_branch(node)]
    return {line for node in nodes for line in lines.get(id(node), ())}


def subroutine_blocks(program: Program) -> set[int]:
    """Basic blocks that only calls reach, such as slow paths of divisions; their lines are not those of the calls."""
    called = {i.target for i in program.instructions if i.name == "CALL"}
    calls = {program.block_of(i): i.target for i in program.instructions if i.name == "CALL"}
    reached: set[int] = set()
    waiting = [block for block in program.block_starts[:1] if block not in called]
    while waiting:
        block = waiting.pop()
        if block not in reached:
            reached.add(block)
            waiting += [following for following in program.next_blocks(block) if following != calls.get(block)]
    return {block for block in program.block_starts if block not in reached}


def with_machine_code(facts: Facts, kernel: Kernel, program: Program, lines: Mapping[int, range]) -> Facts:
    """Facts whose assumed branches are settled by the machine code.

    A choice is selected if no branch that may diverge has a line of its statements, nor a line that no other branch of
    the plan explains. lines: those of `Kernel.statement_lines`."""
    subroutines = subroutine_blocks(program)
    branching = {i.line for i in divergent_branches(program) if program.block_of(i) not in subroutines}
    unknown_lines = branching - explained_lines(facts, kernel, lines)
    branches: list[BranchFacts] = []
    choices = facts.choices
    for branch in facts.branches:
        branch_lines = {line for node in branch.nodes for line in lines.get(id(node), ())}
        if not branch.is_assumed or not branch_lines:
            branches.append(branch)
        elif branching & branch_lines:
            branches.append(replace(branch, reason=BRANCHES))
        elif unknown_lines:
            branches.append(branch)
        else:
            choices += 1
    return replace(facts, branches=tuple(branches), choices=choices)


def _is_branch(node: Node) -> bool:
    if isinstance(node, Load | Copy):
        return node.guard is not None
    return isinstance(node, For | If | ReturnUnless | AcquireSpinWait)


def _operand_predicate(instruction: Instruction) -> str:
    """The predicate of `BRA P1, target`."""
    if instruction.name == "BRA":
        return next((part for part in instruction.operands if part.lstrip("!").startswith(("P", "UP"))), "")
    return ""
