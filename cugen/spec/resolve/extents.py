"""How far an index runs: from the bare subscripts that it is used as, and from `indices:`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr, Span
from cugen.spec.model import Array, Param
from cugen.spec.parse.syntax import NameNode, Node, StatementNode, SubscriptNode, walk
from cugen.spec.prove.affine import AffineForm, affine_form, text_of
from cugen.spec.prove.nonnegative import never_negative


@dataclass(frozen=True, slots=True)
class Evidence:
    """A bare subscript `array[..., index, ...]` and the extent of that dimension."""

    array: str
    dimension: int
    extent: Expr
    span: Span


def evidence(nodes: Iterable[Node], index: str, arrays: Mapping[str, Array]) -> list[Evidence]:
    """The bare uses of an index, in the order of the text."""
    found: list[Evidence] = []
    for node in nodes:
        for part in walk(node):
            if not isinstance(part, SubscriptNode) or part.array not in arrays:
                continue
            shape = arrays[part.array].shape
            for dimension, (subscript, extent) in enumerate(zip(part.subscripts, shape, strict=False)):
                if isinstance(subscript, NameNode) and subscript.name == index:
                    found.append(Evidence(part.array, dimension, extent, subscript.span))
    return found


def evidence_of_readers(
    temporary: str, dimension: int, readers: Sequence[StatementNode], arrays: Mapping[str, Array]
) -> list[Evidence]:
    """What later statements tell of a temporary's dimension: where they read it at a bare index, that index's uses."""
    found: list[Evidence] = []
    for position, reader in enumerate(readers):
        for name in _bare_at(temporary, dimension, reader.value):
            uses = evidence((reader.target, reader.value), name, arrays)
            if not uses and isinstance(reader.target, SubscriptNode):
                places = [place for place, node in enumerate(reader.target.subscripts) if _is(node, name)]
                for place in places:
                    uses += evidence_of_readers(reader.target.array, place, readers[position + 1 :], arrays)
            found += uses
    return found


def _bare_at(array: str, dimension: int, value: Node) -> dict[str, None]:
    """The indices that stand alone at a dimension where an array is read."""
    reads = [part for part in walk(value) if isinstance(part, SubscriptNode) and part.array == array]
    subscripts = [read.subscripts[dimension] for read in reads if dimension < len(read.subscripts)]
    return {subscript.name: None for subscript in subscripts if isinstance(subscript, NameNode)}


def _is(node: Node, name: str) -> bool:
    return isinstance(node, NameNode) and node.name == name


class Extents:
    """Decides extents, and remembers which entries of `indices:` were used."""

    def __init__(
        self,
        explicit: Iterable[tuple[str, Expr, Span]],
        params: Mapping[str, Param],
        report: Reporter,
        *,
        partial: bool = False,
    ) -> None:
        """`partial` says that some declarations were refused, so that an index may well have had its extent there."""
        self._explicit = {name: (extent, span) for name, extent, span in explicit}
        self._params = params
        self._report = report
        self._partial = partial
        self.used: dict[str, None] = {}

    def of(self, index: str, uses: list[Evidence], span: Span) -> Expr | None:
        """The extent of an index that is bound at `span`; None after a finding."""
        if index in self._explicit:
            self.used[index] = None
            extent, place = self._explicit[index]
            shorter = [self._fits(index, extent, use, place) for use in uses]
            return extent if all(shorter) else None
        if not uses and self._partial:
            return None
        if not uses:
            self._report.error(
                "CG1301",
                f"nothing says how far the index `{index}` runs",
                span,
                label="no extent",
                help=f"add `indices: {{{index}: ...}}`, or use `{index}` alone as a subscript of an array",
            )
            return None
        first = uses[0]
        agreed = [self._agree(index, first, use) for use in uses[1:]]
        return first.extent if all(agreed) else None

    def _agree(self, index: str, first: Evidence, other: Evidence) -> bool:
        if self._form(first.extent) == self._form(other.extent):
            return True
        self._report.error(
            "CG1302",
            f"`{index}` runs over {self._said(first.extent)} in `{first.array}` "
            f"and over {self._said(other.extent)} in `{other.array}`",
            other.span,
            label=f"dimension {other.dimension} of `{other.array}` has {self._said(other.extent)}",
            notes=(
                f"dimension {first.dimension} of `{first.array}` has {self._said(first.extent)} "
                f"(line {first.span.line}, column {first.span.column})",
            ),
            help="make the shapes agree, use two indices, say "
            f"`indices: {{{index}: {self._shorter(first, other)}}}` for the shorter run, "
            f"or write `{index} + 0` where a guard keeps the read inside",
        )
        return False

    def _fits(self, index: str, extent: Expr, use: Evidence, place: Span) -> bool:
        if never_negative(self._form(use.extent) - self._form(extent), (), self._params):
            return True
        self._report.error(
            "CG1303",
            f"`indices` lets `{index}` run over {self._said(extent)}, "
            f"but dimension {use.dimension} of `{use.array}` has {self._said(use.extent)}",
            use.span,
            label=f"only {self._said(use.extent)} here",
            notes=(f"the extent is given in line {place.line}",),
            help="shorten it, or subscript the array with a compound expression and a guard",
        )
        return False

    def _shorter(self, first: Evidence, other: Evidence) -> str:
        """The smaller of two extents, where it can be told."""
        if never_negative(self._form(first.extent) - self._form(other.extent), (), self._params):
            return text_of(other.extent)
        if never_negative(self._form(other.extent) - self._form(first.extent), (), self._params):
            return text_of(first.extent)
        return "..."

    def _form(self, extent: Expr) -> AffineForm:
        return affine_form(extent, self._params)

    def _said(self, extent: Expr) -> str:
        form, text = self._form(extent), text_of(extent)
        return text if not form.is_constant or text == str(form.constant) else f"{text} = {form.constant}"

    def unused(self) -> list[tuple[str, Span]]:
        return [(name, span) for name, (_, span) in self._explicit.items() if name not in self.used]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._explicit)
