"""Integer trees as affine forms, the normal form in which extents are compared and bounds are proved.

A form is a constant plus integer multiples of atoms. Atoms are indices and dynamic params, floor quotients, products,
and opaque values (gathers). Static params are numbers. `e % d` is `e - d * (e // d)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from cugen.spec.expressions import Const, Expr, IndexValue, Op, ParamValue, Read
from cugen.spec.model import Param
from cugen.spec.types import INT64

# Terms of the expanded product of two sums; larger ones stay opaque.
_MAX_TERMS = 64
# Atoms of a form, including those in quotients: nested quotients duplicate their atoms exponentially.
_MAX_WEIGHT = 400


def _sort_key() -> str:
    """The sort key of an atom: a text of its whole tree, hence computed once, by `__post_init__`."""
    key: str = field(init=False, repr=False, compare=False)
    return key


@dataclass(frozen=True, slots=True)
class Variable:
    """An index, or a dynamic param divided by its `multiple_of`."""

    name: str

    @property
    def key(self) -> str:
        """The sort key."""
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """`dividend // divisor`, rounded down. The divisor is at least 1."""

    dividend: AffineForm
    divisor: AffineForm
    key: str = _sort_key()

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"({self.dividend.key})//({self.divisor.key})")


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two or more atoms, sorted by their keys."""

    factors: tuple[Atom, ...]
    key: str = _sort_key()

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", "*".join(factor.key for factor in self.factors))


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value without known properties; equal trees have equal values."""

    expr: Expr
    key: str = _sort_key()

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"<{self.expr!r}>")


Atom = Variable | Quotient | Product | Opaque


@dataclass(frozen=True, slots=True)
class AffineForm:
    """`constant + sum(coefficient * atom)`; `terms` are sorted by their atoms' keys, coefficients are not 0."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @property
    def key(self) -> str:
        """The sort key, unique per form."""
        return " ".join([*(f"{c:+}{atom.key}" for atom, c in self.terms), f"{self.constant:+}"])

    @property
    def is_constant(self) -> bool:
        """Whether the form has no terms."""
        return not self.terms

    def __add__(self, addend: AffineForm | int) -> AffineForm:
        if isinstance(addend, int):
            return AffineForm(self.terms, self.constant + addend)
        total = dict(self.terms)
        for atom, coefficient in addend.terms:
            total[atom] = total.get(atom, 0) + coefficient
        return _normalised(total, self.constant + addend.constant)

    def __neg__(self) -> AffineForm:
        return self.scaled(-1)

    def __sub__(self, subtrahend: AffineForm | int) -> AffineForm:
        return self + (-subtrahend)

    def scaled(self, factor: int) -> AffineForm:
        """The form times an integer."""
        if factor == 0:
            return AffineForm()
        return AffineForm(tuple((atom, c * factor) for atom, c in self.terms), self.constant * factor)


def _normalised(terms: Mapping[Atom, int], constant: int) -> AffineForm:
    nonzero = [(atom, c) for atom, c in terms.items() if c]
    return AffineForm(tuple(sorted(nonzero, key=lambda term: term[0].key)), constant)


def atom_form(atom: Atom, coefficient: int = 1) -> AffineForm:
    """The form `coefficient * atom`."""
    return AffineForm(((atom, coefficient),), 0)


def multiply(a: AffineForm, b: AffineForm) -> AffineForm | None:
    """The expanded product, or None if it has too many terms."""
    if a.is_constant:
        return b.scaled(a.constant)
    if b.is_constant:
        return a.scaled(b.constant)
    if (len(a.terms) + 1) * (len(b.terms) + 1) > _MAX_TERMS:
        return None
    linear = a.scaled(b.constant) + AffineForm(b.terms).scaled(a.constant)
    total = dict(linear.terms)
    for x, c in a.terms:
        for y, d in b.terms:
            product = Product(tuple(sorted((*_factors(x), *_factors(y)), key=lambda atom: atom.key)))
            total[product] = total.get(product, 0) + c * d
    return _normalised(total, linear.constant)


def _factors(atom: Atom) -> tuple[Atom, ...]:
    return atom.factors if isinstance(atom, Product) else (atom,)


def floor_quotient(a: AffineForm, b: AffineForm) -> AffineForm:
    """`a // b` for a divisor of at least 1; terms that the divisor divides are extracted."""
    if not b.is_constant:
        return _symbolic_quotient(a, b)
    divisor = b.constant
    whole = AffineForm(tuple((atom, c // divisor) for atom, c in a.terms if c // divisor), a.constant // divisor)
    remainder = AffineForm(tuple((atom, c % divisor) for atom, c in a.terms if c % divisor), a.constant % divisor)
    if remainder.is_constant:
        return whole
    atom, c = remainder.terms[0]
    if len(remainder.terms) == 1 and c == 1 and isinstance(atom, Quotient) and atom.divisor.is_constant:
        # (a // b + r) // d = (a + r * b) // (b * d)
        inner = atom.divisor.constant
        return whole + floor_quotient(atom.dividend + remainder.constant * inner, AffineForm((), inner * divisor))
    # (g * f + r) // (g * d) = (f + r // g) // d
    common = gcd(divisor, *(c for _, c in remainder.terms))
    reduced = AffineForm(tuple((atom, c // common) for atom, c in remainder.terms), remainder.constant // common)
    return whole + atom_form(Quotient(reduced, AffineForm((), divisor // common)))


def _symbolic_quotient(a: AffineForm, b: AffineForm) -> AffineForm:
    """`a // b` for a divisor of params: (e * b + r) // b = e + r // b."""
    whole = AffineForm()
    if len(b.terms) == 1 and b.constant == 0:
        ((divisor, scale),) = b.terms
        for atom, c in a.terms:
            cofactor = _cofactor(atom, divisor)
            if cofactor is not None and c // scale:
                whole = whole + cofactor.scaled(c // scale)
                a = a - atom_form(atom, c // scale * scale)
    elif a.terms and a.terms[0][1] % b.terms[0][1] == 0 and a == b.scaled(ratio := a.terms[0][1] // b.terms[0][1]):
        return AffineForm((), ratio)
    if a.is_constant and a.constant in (0, -1):
        return whole + a.constant
    return whole + atom_form(Quotient(a, b))


def _cofactor(atom: Atom, divisor: Atom) -> AffineForm | None:
    """`atom / divisor`; None if the divisor's factors aren't factors of the atom."""
    factors = list(_factors(atom))
    for factor in _factors(divisor):
        if factor not in factors:
            return None
        factors.remove(factor)
    if not factors:
        return AffineForm((), 1)
    return atom_form(factors[0] if len(factors) == 1 else Product(tuple(factors)))


def affine_form(expr: Expr, params: Mapping[str, Param]) -> AffineForm:
    """The affine form of an integer tree; nonaffine parts, and those narrower than 64 bits (they wrap), are opaque."""
    match expr:
        case Const(value=value) if isinstance(value, int):
            return AffineForm((), int(value))
        case IndexValue(name=name):
            return atom_form(Variable(name))
        case ParamValue(name=name) if name in params:
            param = params[name]
            if param.value is not None:
                return AffineForm((), param.value)
            return atom_form(Variable(name), param.multiple_of)
        case Op(name="neg", args=(arg,), dtype=dtype) if dtype == INT64:
            return -affine_form(arg, params)
        case Op(name="add" | "sub" | "mul" | "floordiv" | "mod" as name, args=(left, right), dtype=dtype) if (
            dtype == INT64
        ):
            a, b = affine_form(left, params), affine_form(right, params)
            result = _combine(name, a, b, params)
            if result is not None and _weight(result) <= _MAX_WEIGHT:
                return result
    return atom_form(Opaque(expr))


def _weight(form: AffineForm) -> int:
    return 1 + sum(_atom_weight(atom) for atom, _ in form.terms)


def _atom_weight(atom: Atom) -> int:
    match atom:
        case Quotient(dividend=dividend, divisor=divisor):
            return _weight(dividend) + _weight(divisor)
        case Product(factors=factors):
            return sum(map(_atom_weight, factors))
    return 1


def _combine(name: str, a: AffineForm, b: AffineForm, params: Mapping[str, Param]) -> AffineForm | None:
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return multiply(a, b)
    if b.is_constant and b.constant == 0:
        return AffineForm()
    if a.is_constant and b.is_constant:
        return AffineForm((), a.constant // b.constant if name == "floordiv" else a.constant % b.constant)
    if not _at_least_one(b, params):
        return None
    quotient = floor_quotient(a, b)
    if name == "floordiv":
        return quotient
    product = multiply(b, quotient)
    return None if product is None else a - product


def _at_least_one(form: AffineForm, params: Mapping[str, Param]) -> bool:
    """Whether a divisor is provably positive: a positive number, or a multiple of params with a positive minimum."""
    if form.is_constant:
        return form.constant >= 1
    if form.constant < 0:
        return False
    for atom, coefficient in form.terms:
        for factor in _factors(atom):
            if coefficient < 0 or not isinstance(factor, Variable) or factor.name not in params:
                return False
            if params[factor.name].minimum < 1 and form.constant < 1:
                return False
    return True


def expression_of(form: AffineForm, params: Mapping[str, Param]) -> Expr:
    """The integer tree of a form, its positive terms first."""
    result: Expr | None = None
    for atom, coefficient in sorted(form.terms, key=lambda term: term[1] < 0):
        tree, factor = _tree_of(atom, params), Const(abs(coefficient), INT64)
        term = tree if abs(coefficient) == 1 else Op("mul", (factor, tree), INT64)
        if result is None:
            result = term if coefficient > 0 else Op("neg", (term,), INT64)
        else:
            result = Op("add" if coefficient > 0 else "sub", (result, term), INT64)
    if result is None or form.constant == 0:
        return Const(form.constant, INT64) if result is None else result
    return Op("add" if form.constant > 0 else "sub", (result, Const(abs(form.constant), INT64)), INT64)


def _tree_of(atom: Atom, params: Mapping[str, Param]) -> Expr:
    match atom:
        case Variable(name=name) if name in params:
            multiple = params[name].multiple_of
            value = ParamValue(name)
            return value if multiple == 1 else Op("floordiv", (value, Const(multiple, INT64)), INT64)
        case Variable(name=name):
            return IndexValue(name)
        case Quotient(dividend=dividend, divisor=divisor):
            return Op("floordiv", (expression_of(dividend, params), expression_of(divisor, params)), INT64)
        case Product(factors=(first, *others)):
            tree = _tree_of(first, params)
            for factor in others:
                tree = Op("mul", (tree, _tree_of(factor, params)), INT64)
            return tree
        case Opaque(expr=expr):
            return expr
    raise TypeError(f"not an atom: {atom}")


def text_of(expr: Expr) -> str:
    """An integer tree or a read in the syntax of the expression language, for messages."""
    return _text(expr, 0, expr.exact if isinstance(expr, Read) else ())


_SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "floordiv": ("//", 2), "mod": ("%", 2)}


def _text(expr: Expr, outer_precedence: int, exact: Sequence[tuple[Expr, int]]) -> str:
    """`exact`: the dividends of exact divisions, which have `/`."""
    match expr:
        case Const(value=value):
            return str(value)
        case IndexValue(name=name) | ParamValue(name=name):
            return name
        case Op(name=name, args=(a, b)) if name in _SIGNS:
            sign, precedence = _SIGNS[name]
            if name == "floordiv" and any(dividend is a for dividend, _ in exact):
                sign = "/"
            text = f"{_text(a, precedence, exact)} {sign} {_text(b, precedence + 1, exact)}"
            return f"({text})" if precedence < outer_precedence else text
        case Op(name="neg", args=(a,)):
            return f"-{_text(a, 3, exact)}"
        case _:
            array = getattr(expr, "array", None)
            subscripts = getattr(expr, "subscripts", ())
            return f"{array}[{', '.join(_text(s, 0, exact) for s in subscripts)}]" if array else "..."
