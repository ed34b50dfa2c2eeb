"""Inference of index extents, from bare subscripts and from `indices:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr, Span
from cugen.spec.model import Array
from cugen.spec.parse.syntax import NameNode, Node, StatementNode, SubscriptNode, walk
from cugen.spec.prove.affine import AffineForm, affine_form, text_of
from cugen.spec.prove.requirements import Assumptions


@dataclass(frozen=True, slots=True)
class BareUse:
    """A use of an index as a bare subscript `array[..., index, ...]`, with the extent of that dimension; or an entry of
    `indices:` that gives it, then `dimension` is None."""

    array: str
    dimension: int | None
    extent: Expr
    span: Span

    @property
    def text(self) -> str:
        """The dimension as text, for messages."""
        return f"`{self.array}`" if self.dimension is None else f"dimension {self.dimension} of `{self.array}`"


def bare_uses(nodes: Iterable[Node], index: str, arrays: Mapping[str, Array]) -> list[BareUse]:
    """The bare uses of an index, in source order."""
    uses: list[BareUse] = []
    for node in nodes:
        for part in walk(node):
            if not isinstance(part, SubscriptNode) or part.array not in arrays:
                continue
            shape = arrays[part.array].shape
            for dimension, (subscript, extent) in enumerate(zip(part.subscripts, shape, strict=False)):
                if isinstance(subscript, NameNode) and subscript.name == index:
                    uses.append(BareUse(part.array, dimension, extent, subscript.span))
    return uses


def _uses_by_temporaries(
    value: Node, index: str, earlier: Sequence[StatementNode], arrays: Mapping[str, Array]
) -> list[BareUse]:
    """The bare uses that give an index of `value` its extent by way of temporaries that it subscripts, whose shapes
    aren't inferred yet: `earlier` are the statements before it."""
    uses: list[BareUse] = []
    for part in walk(value):
        if not isinstance(part, SubscriptNode) or part.array in arrays:
            continue
        dimensions = [d for d, subscript in enumerate(part.subscripts) if _is_name(subscript, index)]
        for position, statement in enumerate(earlier):
            target = statement.target
            if not isinstance(target, SubscriptNode) or target.array != part.array:
                continue
            for bound in [target.subscripts[d] for d in dimensions if d < len(target.subscripts)]:
                if isinstance(bound, NameNode):
                    direct = bare_uses((statement.value,), bound.name, arrays)
                    uses += direct or _uses_by_temporaries(statement.value, bound.name, earlier[:position], arrays)
    return uses


def _bare_at(array: str, dimension: int, value: Node) -> dict[str, Span]:
    """The bare indices at one dimension of an array's reads, with the place of one of them."""
    reads = [part for part in walk(value) if isinstance(part, SubscriptNode) and part.array == array]
    subscripts = [read.subscripts[dimension] for read in reads if dimension < len(read.subscripts)]
    return {subscript.name: subscript.span for subscript in subscripts if isinstance(subscript, NameNode)}


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, NameNode) and node.name == name


class Extents:
    """Infers extents, and records which entries of `indices:` are used."""

    def __init__(
        self,
        explicit: Iterable[tuple[str, Expr, Span]],
        assumptions: Assumptions,
        report: Reporter,
        *,
        partial: bool = False,
    ) -> None:
        """`partial`: some declarations, or temporaries so far, are broken, so that a missing extent isn't reported."""
        self._explicit = {name: (extent, span) for name, extent, span in explicit}
        self._assumptions = assumptions
        self._report = report
        self.is_partial = partial
        self.used: dict[str, None] = {}
        self._open: dict[tuple[str, int | None], None] = {}  # dimensions of temporaries that may be read in part

    def by_readers(
        self, temporary: str, dimension: int, readers: Sequence[StatementNode], arrays: Mapping[str, Array]
    ) -> list[BareUse]:
        """The uses that determine a temporary's extent: those of the bare indices at which later statements read it.

        Where `indices:` gives one of them its extent, the longest use decides, and indices of shorter extents may read
        the temporary too."""
        uses = self._uses_by_readers(temporary, dimension, readers, arrays)
        if all(use.dimension is not None for use in uses):
            return uses
        longest = next(
            (use for use in uses if all(self._is_at_most(shorter.extent, use.extent) for shorter in uses)), None
        )
        if longest is None:
            return uses
        self._open[temporary, dimension] = None
        return [longest]

    def _uses_by_readers(
        self, temporary: str, dimension: int, readers: Sequence[StatementNode], arrays: Mapping[str, Array]
    ) -> list[BareUse]:
        all_uses: list[BareUse] = []
        for position, reader in enumerate(readers):
            for name, span in _bare_at(temporary, dimension, reader.value).items():
                if name in self._explicit:
                    all_uses.append(BareUse("indices", None, self._explicit[name][0], span))
                    continue
                uses = bare_uses((reader.target, reader.value), name, arrays)
                uses = uses or _uses_by_temporaries(reader.value, name, readers[:position], arrays)
                if not uses and isinstance(reader.target, SubscriptNode):
                    dimensions = [d for d, node in enumerate(reader.target.subscripts) if _is_name(node, name)]
                    for d in dimensions:
                        uses += self._uses_by_readers(reader.target.array, d, readers[position + 1 :], arrays)
                all_uses += uses
        return all_uses

    def of(self, index: str, uses: list[BareUse], span: Span) -> Expr | None:
        """The extent of an index that is bound at `span`; None after reporting an error."""
        if index in self._explicit:
            self.used[index] = None
            extent, declared_at = self._explicit[index]
            is_valid = [self._fits(index, extent, use, declared_at) for use in uses]
            return extent if all(is_valid) else None
        if not uses and self.is_partial:
            return None
        if not uses:
            self._report.error(
                "CG1301",
                f"the index `{index}` has no extent",
                span,
                label="unknown extent",
                help=f"add `indices: {{{index}: ...}}`, or use `{index}` as a bare subscript of an array",
            )
            return None
        uses = [use for use in uses if (use.array, use.dimension) not in self._open] or uses
        first = uses[0]
        agree = [self._agree(index, first, use) for use in uses[1:]]
        return first.extent if all(agree) else None

    def _agree(self, index: str, first: BareUse, second: BareUse) -> bool:
        a, b = first.extent, second.extent
        if self._form(a) == self._form(b) or (self._is_at_most(a, b) and self._is_at_most(b, a)):
            return True
        self._report.error(
            "CG1302",
            f"`{index}` has the extent {self._extent_text(first.extent)} in `{first.array}` "
            f"and {self._extent_text(second.extent)} in `{second.array}`",
            second.span,
            label=f"{second.text} has {self._extent_text(second.extent)}",
            notes=(
                f"{first.text} has {self._extent_text(first.extent)} "
                f"(line {first.span.line}, column {first.span.column})",
            ),
            help="make the shapes agree, use two indices, say "
            f"`indices: {{{index}: {self._shorter(first, second)}}}` for the shorter extent, "
            f"or write `{index} + 0` where a guard keeps the read inside",
        )
        return False

    def _fits(self, index: str, extent: Expr, use: BareUse, declared_at: Span) -> bool:
        if self._is_at_most(extent, use.extent):
            return True
        self._report.error(
            "CG1303",
            f"`indices` gives `{index}` the extent {self._extent_text(extent)}, "
            f"but {use.text} has {self._extent_text(use.extent)}",
            use.span,
            label=f"only {self._extent_text(use.extent)} here",
            notes=(f"the extent is given in line {declared_at.line}",),
            help="shorten it, or subscript the array with a compound expression and a guard",
        )
        return False

    def _shorter(self, first: BareUse, second: BareUse) -> str:
        """The text of the smaller of two extents, if it can be proved."""
        if self._is_at_most(second.extent, first.extent):
            return text_of(second.extent)
        if self._is_at_most(first.extent, second.extent):
            return text_of(first.extent)
        return "..."

    def _is_at_most(self, shorter: Expr, longer: Expr) -> bool:
        """Whether an extent is provably at most another."""
        return self._assumptions.implies(self._form(longer) - self._form(shorter))

    def _form(self, extent: Expr) -> AffineForm:
        return affine_form(extent, self._assumptions.params)

    def _extent_text(self, extent: Expr) -> str:
        form, text = self._form(extent), text_of(extent)
        return text if not form.is_constant or text == str(form.constant) else f"{text} = {form.constant}"

    def unused(self) -> list[tuple[str, Span]]:
        """The entries of `indices:` that no statement uses."""
        return [(name, span) for name, (_, span) in self._explicit.items() if name not in self.used]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries of `indices:`."""
        return tuple(self._explicit)
