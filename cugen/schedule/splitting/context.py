"""The context of a spec's launches."""

from __future__ import annotations

from cugen.plan.context import Context, make_context
from cugen.schedule.splitting.canonical_form import with_canonical_form
from cugen.schedule.splitting.steps import split_statements, winograd_targets
from cugen.schedule.splitting.tables import with_paying_tables
from cugen.schedule.splitting.whole_chains import with_whole_chains
from cugen.spec.model import Spec


def plan_context(spec: Spec) -> Context:
    """The context of a spec's launches: of its canonical form with whole chains, after `split_statements`, with
    tables."""
    split = split_statements(with_whole_chains(with_canonical_form(spec)), winograd_targets(spec))
    return make_context(with_paying_tables(split), spec)
