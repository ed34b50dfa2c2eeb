"""What a statement becomes in a kernel: loads, loops, guards, and the level of each of them."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import loop_bound
from cugen.plan.names import Names
from cugen.plan.symbols import evaluate, symbol
from cugen.spec.expressions import Const, IndexValue, Op
from cugen.spec.types import BOOL, INT64

SIGNS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
coefficients = st.integers(-6, 6)


def test_loads_of_a_product_stand_in_the_loop_and_the_sum_outside(body):
    assert body("Y[i, j] = sum(A[i, k] * B[k, j], k)", A="8, 8", B="8, 8", Y="8, 8") == [
        "let sum = 0",
        "for k in 0 .. 8",
        "  load a = A[i, k]",
        "  load b = B[k, j]",
        "  sum = add(sum, mul(a, b))",
        "store Y[i, j] = sum",
    ]


def test_an_element_that_is_summed_as_it_is_has_no_name(body):
    assert body("Y[i] = sum(A[i, k], k)", A="8, 8", Y="8") == [
        "let sum = 0",
        "for k in 0 .. 8",
        "  sum = add(sum, A[i, k])",
        "store Y[i] = sum",
    ]


def test_an_element_that_may_be_skipped_is_loaded_before(body):
    assert body("Y[i] = any(A[i, k], k)", A="8, 8; bool", Y="8; bool")[2] == "  load a = A[i, k]"


def test_what_does_not_depend_on_the_loop_is_loaded_before_it(body):
    assert body("Y[i] = sum(maximum(A[i], B[k]), k)", A="8", B="8", Y="8") == [
        "load a = A[i]",
        "let sum = 0",
        "for k in 0 .. 8",
        "  load b = B[k]",
        "  sum = add(sum, maximum(a, b))",
        "store Y[i] = sum",
    ]


def test_loads_that_are_safe_without_an_iteration_stand_before_a_loop_that_may_not_run(body):
    nodes = body("Y[i] = sum(maximum(A[i], B[k]), k)", A="8", B="N", Y="8", top="params: {N: {range: [0, 100]}}")
    assert nodes[:4] == ["load a = A[i]", "let sum = 0", "for k in 0 .. N", "  load b = B[k]"]


def test_a_load_leaves_all_inner_loops_that_may_not_run(body):
    nodes = body(
        "Y[i] = sum(A[i, c] * B[c, r, s], c, r, s)",
        A="8, N",
        B="N, R, S",
        Y="8",
        top="params: {N: {range: [0, 100]}, R: {range: [0, 3]}, S: {range: [0, 3]}}",
    )
    assert nodes[1:5] == ["for c in 0 .. N", "  load a = A[i, c]", "  for r in 0 .. R", "    for s in 0 .. S"]


def test_a_load_that_its_ranges_do_not_prove_in_bounds_stays_in_a_loop_that_may_not_run(body):
    nodes = body(
        "Y[i] = sum(A[J[i]] * B[k], k)", A="8", J="8; int32", B="N", Y="8", top="params: {N: {range: [0, 100]}}"
    )
    loop = nodes.index("for k in 0 .. N")
    assert [n for n, node in enumerate(nodes) if "= A[" in node] > [loop]


def test_a_load_stays_under_its_condition_where_the_loop_does_not_change_it(body):
    nodes = body(
        "Y[i] = sum(where(D[i] > 0, A[i], 0) * B[k], k)",
        A="8",
        D="8",
        B="N",
        Y="8",
        top="params: {N: {range: [0, 100]}}",
    )
    (inside,) = [n for n, node in enumerate(nodes) if "A[i]" in node]
    assert nodes[inside - 1].lstrip().startswith("if")


def test_a_long_sum_of_float32_is_compensated(body):
    assert body("Y[i] = sum(A[i, k], k)", A="8, 1025", Y="8") == [
        "let sum = 0",
        "let surplus = 0",
        "for k in 0 .. 1025",
        "  let term = sub(A[i, k], surplus)",
        "  let rounded = add(sum, term)",
        "  let excess = sub(sub(rounded, sum), term)",
        "  surplus = (lt(abs(excess), inf) ? excess : 0)",
        "  sum = rounded",
        "store Y[i] = sum",
    ]


def test_each_element_is_loaded_once_however_often_it_is_mentioned(body):
    assert body("Y[i] = A[i] + A[i] * A[i]", A="8", Y="8") == ["load a = A[i]", "store Y[i] = add(a, mul(a, a))"]


def test_an_element_that_statements_share_is_loaded_once(body):
    assert body("Y[i] = A[i]\nZ[i] = A[i] + 1", A="8", Y="8", Z="8") == [
        "load a = A[i]",
        "store Y[i] = a",
        "store Z[i] = add(a, 1.0)",
    ]


def test_loads_of_several_elements_are_named_after_their_subscripts(body):
    nodes = body("Y[i, j] = A[i, j] + A[j, i] + A[0, j] + A[7 - i, j]", A="8, 8", Y="8, 8")
    assert [line.split(" = ")[0] for line in nodes[:-1]] == ["load a_i_j", "load a_j_i", "load a_0_j", "load a_value"]


def test_an_array_in_lower_case_does_not_lend_its_own_name(body):
    assert body("y[i] = a[i]", a="8", y="8") == ["load a_i = a[i]", "store y[i] = a_i"]


def test_a_value_mentioned_twice_is_computed_once(body):
    assert body("Y[i] = (A[i] + 1) * (A[i] + 1) + B[i]", A="8", B="8", Y="8") == [
        "load a = A[i]",
        "let total = add(a, 1.0)",
        "load b = B[i]",
        "store Y[i] = add(mul(total, total), b)",
    ]


def test_a_reduction_mentioned_twice_runs_once(body):
    nodes = body("Y[i] = sum(A[i, k], k) * sum(A[i, k], k)", A="8, 8", Y="8")
    assert nodes[-1] == "store Y[i] = mul(sum, sum)"
    assert sum(line.startswith("for") for line in nodes) == 1


def test_a_reduction_over_nothing_of_the_outer_loop_runs_before_it(body):
    nodes = body("Y[i] = sum(A[i, k] * max(B[l], l), k)", A="8, 8", B="8", Y="8")
    assert [line for line in nodes if line.startswith(("for", "let"))] == [
        "let largest = -inf",
        "for l in 0 .. 8",
        "let sum = 0",
        "for k in 0 .. 8",
    ]


def test_successive_loops_share_a_name_and_nested_ones_do_not(body):
    nodes = body("Y[i] = max(A[i, k], k) + sum(A[i, k] * sum(B[k, k2], k2), k)", A="8, 8", B="8, 8", Y="8")
    assert [line.strip() for line in nodes if "for " in line] == [
        "for k in 0 .. 8",
        "for k in 0 .. 8",
        "for k2 in 0 .. 8",
    ]


# Bounds and conditions


def loops(nodes):
    return [line.strip() for line in nodes if line.strip().startswith("for")]


def test_affine_conditions_become_bounds_of_the_loop(body):
    assert loops(body("Y[i] = sum(A[k], k, where=k <= i)", A="8", Y="8")) == ["for k in 0 .. i + 1"]
    assert loops(body("Y[i] = sum(A[k], k, where=k < i)", A="8", Y="8")) == ["for k in 0 .. i"]
    assert loops(body("Y[i] = sum(A[k], k, where=k >= i)", A="8", Y="8")) == ["for k in i .. 8"]
    assert loops(body("Y[i] = sum(A[k], k, where=i < k)", A="8", Y="8")) == ["for k in i + 1 .. 8"]
    assert loops(body("Y[i] = sum(A[k], k, where=7 - k > i)", A="8", Y="8")) == ["for k in 0 .. 7 - i"]


def test_every_bound_counts(body):
    nodes = body("Y[i, j] = sum(A[k], k, where=k >= i and k >= j and k <= i + 2 and k <= j + 3)", A="8", Y="8, 8")
    (loop,) = loops(nodes)
    assert loop == "for k in Maximum(i, j) .. Minimum(Minimum(8, i + 3), j + 4)"
    assert not any(line.strip().startswith("if") for line in nodes)


def test_a_condition_that_is_no_bound_guards_the_body(body):
    assert body("Y[i] = sum(A[k], k, where=k % 2 == i)", A="8", Y="8")[1:4] == [
        "for k in 0 .. 8",
        "  if Mod(k, 2) == i",
        "    sum = add(sum, A[k])",
    ]


def test_a_condition_is_hoisted_as_far_out_as_it_can_be(body):
    nodes = body("Y[i] = sum(A[k, l], k, l, where=k != i and l <= k)", A="8, 8", Y="8")
    assert nodes[1:5] == ["for k in 0 .. 8", "  if k != i", "    for l in 0 .. k + 1", "      sum = add(sum, A[k, l])"]


def test_a_condition_on_data_is_loaded_and_tested_first(body):
    assert body("Y[i] = sum(A[k], k, where=B[k] > 0)", A="8", B="8", Y="8")[1:5] == [
        "for k in 0 .. 8",
        "  load b = B[k]",
        "  if gt(b, 0.0)",
        "    sum = add(sum, A[k])",
    ]


def test_a_value_that_is_tested_and_summed_is_loaded_once(body):
    nodes = body("Y[i] = sum(A[k], k, where=A[k] > 0)", A="8", Y="8")
    assert nodes[1:5] == ["for k in 0 .. 8", "  load a = A[k]", "  if gt(a, 0.0)", "    sum = add(sum, a)"]


def test_bounds_next_to_a_condition_on_data_remain_bounds(body):
    block = "Y[i] = sum(A[k, l], k, l, where=k < i and l < k and B[k] > 0)"
    assert body(block, A="8, 8", B="8", Y="8")[1:6] == [
        "for k in 0 .. i",
        "  load b = B[k]",  # in bounds where no l < k, too
        "  for l in 0 .. k",
        "    if gt(b, 0.0)",
        "      sum = add(sum, A[k, l])",
    ]


def test_data_is_read_only_where_the_conditions_before_it_hold(body):
    nodes = body("Y[i] = sum(A[k], k, where=k % 2 == 0 and B[k] > 0)", A="8", B="8", Y="8")
    assert nodes[2:5] == ["  if Mod(k, 2) == 0", "    load b = B[k]", "    if gt(b, 0.0)"]
    nodes = body("Y[i] = sum(A[k], k, where=k < L[i] and B[k] > 0)", A="8", B="8", L="8; int32", Y="8")
    assert nodes[-5:-2] == ["for k in 0 .. stop", "  load b = B[k]", "  if gt(b, 0.0)"]


def test_an_outer_condition_on_data_is_tested_before_inner_loops(body):
    nodes = body("Y[i] = sum(A[k, l], k, l, where=B[k] > 0 and l < k)", A="8, 8", B="8", Y="8")
    assert nodes[1:5] == ["for k in 0 .. 8", "  load b = B[k]", "  if gt(b, 0.0)", "    for l in 0 .. k"]


def test_a_condition_that_always_holds_is_not_tested(body):
    nodes = body("Y[i] = sum(A[k], k, where=2 * k >= 0)", A="8", Y="8")
    assert nodes[1:3] == ["for k in 0 .. 8", "  sum = add(sum, A[k])"]


def test_an_empty_reduction_has_the_identity(body):
    first = {
        "sum": "let sum = 0",
        "prod": "let product = 1",
        "max": "let largest = -inf",
        "min": "let smallest = inf",
    }
    for kind, line in first.items():
        assert body(f"Y[i] = {kind}(A[i, k], k)", A="8, 8", Y="8")[0] == line
    assert body("Y[i] = max(A[i, k], k)", A="8, 8; int8", Y="8; int8")[0] == "let largest = -128"
    assert body("Y[i] = min(A[i, k], k)", A="8, 8; uint16", Y="8; uint16")[0] == "let smallest = 65535"
    assert body("Y[i] = any(A[i, k], k)", A="8, 8; bool", Y="8; bool")[0].replace("_", "") == "let any = False"
    assert body("Y[i] = all(A[i, k], k)", A="8, 8; bool", Y="8; bool")[0].replace("_", "") == "let all = True"


def test_argmax_keeps_the_first_of_equal_values_and_lets_a_nan_win(body):
    assert body("Y[i] = argmax(A[i, k], k)", A="8, 8", Y="8; int64") == [
        "let argmax = -1",
        "let largest = 0",
        "for k in 0 .. 8",
        "  load a = A[i, k]",
        "  if or(lt(argmax, 0), or(gt(a, largest), and(ne(a, a), eq(largest, largest))))",
        "    largest = a",
        "    argmax = k",
        "store Y[i] = argmax",
    ]


def test_argmin_of_integers_needs_no_test_for_nan(body):
    nodes = body("Y[i] = argmin(A[i, k] * 2, k)", A="8, 8; int32", Y="8; int64")
    assert nodes[4:6] == ["  let candidate = mul(a, 2)", "  if or(lt(argmin, 0), lt(candidate, smallest))"]


def test_a_scan_is_a_serial_loop_with_an_accumulator(body):
    assert body("Y[i, j] = cumsum(A[i, j], j)", A="8, 8", Y="8, 8") == [
        "let sum = 0",
        "for j in 0 .. 8",
        "  load a = A[i, j]",
        "  sum = add(sum, a)",
        "  store Y[i, j] = sum",
    ]


def test_an_exclusive_scan_adds_an_element_after_it_was_written(body):
    assert body("Y[i, j] = cumsum(A[i, j], j, exclusive=true)", A="8, 8", Y="8, 8")[2:] == [
        "  load a = A[i, j]",
        "  store Y[i, j] = sum",
        "  sum = add(sum, a)",
    ]


def test_a_reverse_scan_loops_downward(body):
    nodes = body("Y[i, j] = cumsum(A[i, j], j, reverse=true)", A="8, 8", Y="8, 8")
    assert loops(nodes) == ["for j in 0 .. 8 downward"]


def test_scans_in_two_directions_are_reductions_up_to_and_from_the_threads_element(body):
    both = "Y[i, j] = cumsum(A[i, j], j) - cumsum(A[i, j], j, reverse=true, exclusive=true)"
    assert loops(body(both, A="8, 8", Y="8, 8")) == ["for j_1 in 0 .. j + 1", "for j_1 in j + 1 .. 8"]


def test_a_scan_that_only_some_rows_need_is_computed_for_all_within_a_boundary(body):
    nodes = body("Y[i, j] = where(i < 7, cumsum(A[i + 1, j], j), 0)", A="8, 8", Y="8, 8")
    assert loops(nodes) == ["for j in 0 .. 8"]
    assert any("if i + 1 < 8 else 0" in node for node in nodes)


# Reads outside


def test_guards_hold_only_what_is_not_proved(body):
    assert body("Y[i] = A[i - 1] + A[i] + A[i + 1]", A="8; float32; boundary: zero", Y="8")[:3] == [
        "load a_im1 = A[i - 1] if i - 1 >= 0 else 0",
        "load a_i = A[i]",
        "load a_ip1 = A[i + 1] if i + 1 < 8 else 0",
    ]


def test_a_dynamic_extent_bounds_the_index_that_it_is_the_extent_of(body):
    nodes = body("Y[i] = A[i] + A[i - 1]", A="N; float32; boundary: zero", Y="N", top="params: {N: dynamic}")
    assert nodes[:2] == ["load a_i = A[i]", "load a_im1 = A[i - 1] if i - 1 >= 0 else 0"]


def test_a_value_outside_is_the_boundary_value(body):
    nodes = body("Y[i] = A[i + 1]", A="8; float32; boundary: {value: -2.5}", Y="8")
    assert nodes[0] == "load a = A[i + 1] if i + 1 < 8 else -2.5"


def test_clamped_subscripts_are_named_and_clamp_only_possible_sides(body):
    assert body("Y[i] = A[i - 1] + A[i + 1]", A="8; float32; boundary: clamp", Y="8")[:4] == [
        "im1 := Maximum(i - 1, 0)",
        "load a_im1 = A[im1]",
        "ip1 := Minimum(i + 1, 7)",
        "load a_ip1 = A[ip1]",
    ]


def test_wrapped_and_reflected_subscripts(body):
    assert body("Y[i] = A[i - 1]", A="8; float32; boundary: wrap", Y="8")[0] == "im1 := Mod(i - 1, 8)"
    assert body("Y[i] = A[i - 1]", A="8; float32; boundary: reflect", Y="8")[:2] == [
        "im1_in_period := Mod(i - 1, 14)",
        "im1 := Minimum(im1_in_period, 14 - im1_in_period)",
    ]
    assert body("Y[i] = A[i - 1]", A="8; float32; boundary: symmetric", Y="8")[:2] == [
        "im1_in_period := Mod(i - 1, 16)",
        "im1 := Minimum(im1_in_period, 15 - im1_in_period)",
    ]


def test_an_array_of_one_element_reflects_onto_itself(body):
    nodes = body("Y[i] = A[i - 1]", A="N; float32; boundary: reflect", Y="N", top="params: {N: dynamic}")
    assert nodes[0] == "im1_in_period := Mod(i - 1, Maximum(2*N - 2, 1))"


def test_equal_folded_subscripts_are_named_once(body):
    nodes = body("Y[i, j] = A[i - 1, j] + A[i - 1, 0]", A="8, 8; float32; boundary: clamp", Y="8, 8")
    assert sum(line.startswith("im1") for line in nodes) == 1


def test_the_remainder_of_an_exact_division_is_guarded(body):
    assert body("Y[i] = A[i / 2]", A="8; float32; boundary: zero", Y="8")[0] == (
        "load a = A[FloorDiv(i, 2)] if Mod(i, 2) == 0 else 0"
    )


def test_a_gather_loads_its_index_first(body):
    assert body("Y[i] = A[B[i]]", A="8", B="8; int32", Y="8")[:2] == ["load b = B[i]", "load a = A[b]"]
    assert body("Y[i] = A[B[i]]", A="8; float32; boundary: zero", B="8; int32", Y="8")[:2] == [
        "load b = B[i]",
        "load a = A[b] if b >= 0 and b < 8 else 0",
    ]


def test_an_unsigned_index_cannot_be_negative(body):
    nodes = body("Y[i] = A[B[i]]", A="1000; float32; boundary: zero", B="8; uint8", Y="8")
    assert nodes[:2] == ["load b = B[i]", "load a = A[b]"]


# Choices


def test_a_choice_between_values_stays_an_expression(body):
    assert body("Y[i] = where(A[i] > 0, 1.0, 2.0)", A="8", Y="8") == [
        "load a = A[i]",
        "store Y[i] = (gt(a, 0.0) ? 1.0 : 2.0)",
    ]


def test_a_choice_that_calls_a_function_is_made_once(body):
    chosen = "where(A[i] < 1, A[i], A[i] ** 2.4)"
    assert body(f"Y[i] = 2 * {chosen} + 1 / {chosen}", A="8", Y="8") == [
        "load a = A[i]",
        "let chosen = (lt(a, 1.0) ? a : pow(a, 2.4))",
        "store Y[i] = add(mul(2.0, chosen), div(1.0, chosen))",
    ]


def test_only_the_chosen_branch_loads(body):
    assert body("Y[i] = where(B[i] > 0, A[i], C[i])", A="8", B="8", C="8", Y="8") == [
        "load b = B[i]",
        "let chosen",
        "if gt(b, 0.0)",
        "  chosen = A[i]",
        "else",
        "  chosen = C[i]",
        "store Y[i] = chosen",
    ]


def test_a_guarded_read_with_a_plain_alternative_is_one_load(body):
    assert body("Y[i] = where(i >= 1, A[i - 1], 0)", A="8", Y="8") == [
        "load a = A[i - 1] if i >= 1 else 0.0",
        "store Y[i] = a",
    ]


def test_a_condition_that_always_holds_leaves_its_branch_alone(body):
    assert body("Y[i] = where(i >= 0, A[i], 1)", A="8", Y="8") == ["load a = A[i]", "store Y[i] = a"]


def test_loads_of_a_branch_are_not_available_after_it(body):
    nodes = body("Y[i] = where(B[i] > 0, A[i], 0) + A[i]", A="8", B="8", Y="8")
    assert sum("= A[i]" in line for line in nodes) == 2


# Several statements


def test_a_result_is_forwarded_rounded(body):
    assert body("Z[i] = A[i] * 2\nY[i] = Z[i] + 1", A="8", Y="8", Z="8; float16") == [
        "load a = A[i]",
        "let z_value = float16(mul(a, 2.0))",
        "store Z[i] = z_value",
        "store Y[i] = add(z_value, 1.0)",
    ]


def test_accumulating_reads_the_old_element_once(body):
    assert body("Y[i] += A[i]", A="8", Y="8") == ["load a = A[i]", "load y_old = Y[i]", "store Y[i] = add(y_old, a)"]


def test_values_computed_from_an_array_are_invalidated_by_a_store(body):
    assert body("Y[i] = A[i] * 2 + 1\nA[i] = B[i]\nZ[i] = A[i] * 2 + 3", A="8", B="8", Y="8", Z="8")[-4:] == [
        "load b = B[i]",
        "store A[i] = b",
        "let product_ = mul(b, 2.0)",
        "store Z[i] = add(product_, 3.0)",
    ]


def test_a_reduction_over_an_overwritten_element_runs_again(body):
    block = "Y[i] = sum(maximum(A[i], B[k]), k)\nA[i] = C[i]\nZ[i] = sum(maximum(A[i], B[k]), k)"
    nodes = body(block, A="8", B="8", C="8", Y="8", Z="8")
    assert nodes[-1] == "store Z[i] = sum_"
    assert "  sum_ = add(sum_, maximum(c, b))" in nodes


def test_loads_of_one_element_in_successive_loops_share_a_name(body):
    nodes = body("Y[i] = max(A[i, k] + 1, k) + sum(A[i, k] + 2, k)", A="8, 8", Y="8")
    assert [line for line in nodes if "load" in line] == ["  load a = A[i, k]", "  load a = A[i, k]"]


def test_a_small_literal_power_is_multiplied_by_squaring(body):
    assert body("Y[i] = A[i] ** 5", A="8", Y="8") == [
        "load a = A[i]",
        "let power = mul(a, a)",
        "store Y[i] = mul(mul(power, power), a)",
    ]
    assert body("Y[i] = pow(A[i], 2.7)", A="8", Y="8")[-1] == "store Y[i] = pow(a, 2.7)"


def test_a_literal_power_of_halves_is_multiplied_with_one_root_and_one_division(body):
    assert body("Y[i] = A[i] ** (-2.5)", A="8", Y="8") == [
        "load a = A[i]",
        "let base = (eq(a, -inf) ? inf : add(a, 0.0))",
        "let inverse = div(1.0, base)",
        "store Y[i] = mul(mul(inverse, inverse), rsqrt(base))",
    ]
    assert body("Y[i] = A[i] ** (-2)", A="8", Y="8")[1:] == [
        "let inverse = div(1.0, a)",
        "store Y[i] = mul(inverse, inverse)",
    ]
    assert body("Y[i] = A[i] ** 0.5", A="8", Y="8")[-1] == "store Y[i] = sqrt(a)"


def test_a_power_of_what_is_not_negative_has_no_choice(body):
    assert body("Y[i] = (A[i] * A[i] + 1) ** 1.5", A="8", Y="8")[1:] == [
        "let total = add(mul(a, a), 1.0)",
        "let base = add(total, 0.0)",
        "store Y[i] = mul(base, sqrt(base))",
    ]


@pytest.mark.parametrize(
    ("value", "before"),
    [
        ("sum(A[i] / B[i] - C[k], k)", "let quotient = div(a, b)"),
        ("sum(abs(exp(A[i]) - C[k]), k)", "let exp_value = exp(a)"),
        ("sum((A[i] + B[i]) * C[k], k)", ""),
        ("sum(A[i] / C[k], k)", ""),
    ],
)
def test_a_costly_operation_that_a_loop_does_not_change_is_before_it(body, value, before):
    arrays = {"A": "8", "C": "5", "Y": "8"} | ({"B": "8"} if "B" in value else {})
    lines = body(f"Y[i] = {value}", **arrays)
    loop = next(n for n, line in enumerate(lines) if line.startswith("for"))
    assert [line for line in lines[:loop] if line.startswith("let") and "(" in line] == ([before] if before else [])


def test_powers_of_one_base_share_its_reciprocal(body):
    block = "Y[i] = A[i] ** (-2.5) + A[i] ** (-1.5)"
    assert sum("div(" in line for line in body(block, A="8", Y="8")) == 1


def test_a_bound_is_not_proved_at_the_end_of_an_index_that_a_quotient_moves_back(body):
    nodes = body("Y[i] = where(0 <= 3 * (i // 2) - i, A[i], 1)", A="28", Y="28")
    assert "0 <= " in nodes[0]


def test_what_a_branch_and_the_rest_of_a_statement_need_is_computed_before_it(body):
    value = "where(A[i] >= 0, 1.0, exp(-A[i])) / (1 + exp(-A[i]))"
    assert body(f"Y[i] = {value}", A="8", Y="8") == [
        "load a = A[i]",
        "let exp_value = exp(neg(a))",
        "store Y[i] = div((ge(a, 0.0) ? 1.0 : exp_value), add(1.0, exp_value))",
    ]


def test_what_only_branches_need_is_computed_in_them(body):
    nodes = body("Y[i] = where(A[i] >= 0, exp(-A[i]), 1.0) + where(A[i] < 1, exp(-A[i]), 2.0)", A="8", Y="8")
    assert nodes[0] == "load a = A[i]"
    assert "let exp_value = exp(neg(a))" not in nodes


def linear(k, i, constant):
    """`k * k_index + i * i_index + constant` in the language."""
    products = (Op("mul", (Const(c, INT64), IndexValue(name)), INT64) for c, name in ((k, "k"), (i, "i")))
    return Op("add", (Op("add", tuple(products), INT64), Const(constant, INT64)), INT64)


def lowering_of(*names):
    return Lowering(Names(), {}, {name: symbol(name) for name in names}, {})


@given(st.sampled_from(sorted(SIGNS)), *[st.tuples(coefficients, coefficients, st.integers(-50, 50))] * 2)
def test_the_bound_of_a_loop_holds_exactly_where_the_condition_does(name, left, right):
    condition = Op(name, (linear(*left), linear(*right)), BOOL)
    bound = loop_bound(lowering_of("k", "i"), condition, symbol("k"))
    if left[0] == right[0]:
        assert bound is None
        return
    for i in range(-7, 8):
        limit = evaluate(bound.right, {symbol("i"): i})
        for k in range(limit - 9, limit + 9):
            sides = [a * k + b * i + c for a, b, c in (left, right)]
            assert (k < limit if bound.operator == "<" else k >= limit) == SIGNS[name](*sides)


def test_loops_end_where_their_conditions_with_factors_do(body):
    def loops(condition):
        nodes = body(f"Y[i] = sum(A[k], k, where={condition})", A="64", Y="8")
        return [line for line in nodes if "for " in line or "if " in line]

    assert loops("2 * k < 64") == ["for k in 0 .. 32"]
    assert loops("2 * k + 1 < 64") == ["for k in 0 .. 32"]
    assert loops("k - i <= 0") == ["for k in 0 .. i + 1"]
    assert loops("3 * k >= 2 * i + 5") == ["for k in FloorDiv(2*i + 7, 3) .. 64"]
    assert loops("4 * i < 2 * k") == ["for k in 2*i + 1 .. 64"]


DYNAMIC = "params: {M: dynamic, N: dynamic}"


def test_a_read_that_a_boundary_folds_is_zero_where_its_array_has_no_element(body):
    assert body("Y[i] = A[i - 1]", A="N; float32; boundary: wrap", Y="8", top=DYNAMIC) == [
        "im1 := Mod(i - 1, Maximum(N, 1))",
        "load a = A[im1] if N > 0 else 0",
        "store Y[i] = a",
    ]


@pytest.mark.parametrize("extent", ["N", "M * N", "2 * N - 5"])
def test_an_output_says_that_the_array_has_an_element(body, extent):
    nodes = body("Y[i] = A[i - 1] + B[0 * i]", A="N; float32; boundary: wrap", B="M + 1", Y=extent, top=DYNAMIC)
    assert nodes[:2] == ["im1 := Mod(i - 1, N)", "load a = A[im1]"]


def test_an_output_that_is_longer_does_not(body):
    nodes = body("Y[i] = A[i - 1]", A="N; float32; boundary: wrap", Y="N + 1", top=DYNAMIC)
    assert "load a = A[im1] if N > 0 else 0" in nodes


def test_a_loop_says_that_the_array_has_an_element(body):
    nodes = body("Y[i] = sum(A[i, j - 1] * B[j], j)", A="8, N; float32; boundary: wrap", B="N", Y="8", top=DYNAMIC)
    assert "  load a = A[i, jm1]" in nodes


def test_sums_with_a_common_operation_share_a_loop(body):
    assert body("Y[i] = sum(exp(A[i, k]) * k, k) / sum(exp(A[i, k]), k)", A="8, 8", Y="8") == [
        "let sum = 0",
        "let sum_ = 0",
        "for k in 0 .. 8",
        "  load a = A[i, k]",
        "  let exp_value = exp(a)",
        "  sum = add(sum, mul(exp_value, float32(k)))",
        "  sum_ = add(sum_, exp_value)",
        "store Y[i] = div(sum, sum_)",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "sum(A[i, k] * k, k) / sum(A[i, k], k)",  # no operation
        "sum(exp(A[i, k]) * k, k) / sum(exp(A[i, k]), k, where=k > 2)",  # other conditions
        "sum(exp(A[i, k]), k) + (sum(exp(A[i, k]) * k, k) if i > 3 else 0)",  # not for all results
    ],
)
def test_sums_of_other_terms_have_loops_of_their_own(body, value):
    lines = body(f"Y[i] = {value}", A="8, 8", Y="8")
    assert sum(line.strip().startswith("for ") for line in lines) == 2
