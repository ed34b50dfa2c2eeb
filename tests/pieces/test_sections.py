"""Groups of sections, and the sections that a scope's nodes become."""

from __future__ import annotations

import jinja2
import pytest

from cugen.pieces.sections import SectionGroup, append_loop, guarded_nodes, since_last_section
from cugen.plan.nodes import Barrier, Comment, Comparison, For, Guard, If, Index, Loop, Section
from cugen.plan.scopes import Scope
from cugen.plan.symbols import integer

FIRST, SECOND = Section("load", (Comment("first"),)), Section("load", (Comment("second"),))
STORE = Section("store", (Barrier(),))


def test_a_group_gives_a_section_by_its_name() -> None:
    group = SectionGroup("stage", (FIRST, STORE))
    assert group["load"] is FIRST
    assert group["store"] is STORE


def test_a_section_that_a_group_does_not_have_is_empty() -> None:
    missing = SectionGroup("stage", (FIRST,))["store"]
    assert missing == SectionGroup("store", ())
    assert not missing


def test_a_group_is_false_where_all_its_sections_are_empty() -> None:
    assert not SectionGroup("stage", (Section("load", ()), Section("store", ())))
    assert SectionGroup("stage", (Section("load", ()), STORE))


def test_a_name_of_two_sections_is_an_error() -> None:
    group = SectionGroup("stage", (FIRST, SECOND, STORE))
    assert group["store"] is STORE
    with pytest.raises(ValueError, match="2 sections of the group stage have the name load"):
        group["load"]


def test_a_template_that_asks_for_the_name_of_two_sections_fails() -> None:
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string("{{ stage.load }}")
    with pytest.raises(ValueError, match="2 sections of the group stage have the name load"):
        template.render(stage=SectionGroup("stage", (FIRST, SECOND)))


def test_a_loop_becomes_a_section_and_so_do_the_nodes_before_it() -> None:
    index = Index("k", integer(0), (0, 3))
    loop = For(Loop(index, integer(0), integer(4)), (Comment("inside"),))
    scope = Scope()
    scope.nodes += [Comment("before")]
    append_loop(scope, "accumulators", "main_loop", loop)
    scope.nodes += [Comment("after")]
    assert scope.nodes[:2] == [Section("accumulators", (Comment("before"),)), Section("main_loop", (loop,))]
    assert since_last_section(scope.nodes) == (Comment("after"),)


def test_nodes_are_in_a_branch_only_where_their_guard_has_terms() -> None:
    nodes, orelse = (Comment("inside"),), (Comment("outside"),)
    guard = Guard((Comparison(integer(1), "<", integer(2)),))
    assert guarded_nodes(guard, nodes, orelse) == (If(guard, nodes, orelse),)
    assert guarded_nodes(Guard(()), nodes, orelse) == nodes
