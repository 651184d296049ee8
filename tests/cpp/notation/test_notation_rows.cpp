#include "check.h"
#include "notation/notation_rows.h"

using namespace shardprop;

namespace {

const NotedArgument kNothing{};

NotedArgument number(std::int64_t value) { return {NotedArgument::Kind::kNumber, {value}}; }
NotedArgument numbers(std::vector<std::int64_t> values) {
  return {NotedArgument::Kind::kNumbers, std::move(values)};
}

NotedCall call_of(const std::vector<NotedShape>& shapes,
                  std::vector<NotedArgument> arguments = {}) {
  NotedCall call;
  for (const NotedShape& shape : shapes) call.operands.push_back({shape});
  call.arguments = std::move(arguments);
  return call;
}

// Outputs that are no lists.
void give_outputs(NotedCall& call, const std::vector<std::optional<NotedShape>>& shapes) {
  call.outputs.emplace();
  for (const auto& shape : shapes) call.outputs->push_back(NotedTensors(1, shape));
}

std::string text_of(const NotedCell& cell) {
  std::string text;
  const auto add = [&text](const char* name, std::int64_t number) {
    text.append(name).append(std::to_string(number));
  };
  const Placement p = cell.placement;
  if (p.kind == Kind::kAbsent) return "-";
  if (p == partial(kSum)) return "P";
  if (p.is_partial()) add("P", p.reduce_op());
  if (p.is_replicate()) return "R";
  if (p.kind == Kind::kPlaceholder) add("S", p.dim);
  if (cell.even) text.append("e");
  if (cell.min_local > 1) add("m", cell.min_local);
  if (cell.multiple_of > 1) add("x", cell.multiple_of);
  return text;
}

// "S0 S0 R, P S1 S0": rows of outputs and operands; or what is wrong.
std::string rows(const char* text, const NotedCall& call) {
  std::string all;
  try {
    for (const NotedRow& row : rows_of(parse_notation(text), call)) {
      if (!all.empty()) all += ", ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) all += ' ';
        all += text_of(row[i]);
      }
    }
  } catch (const NeedsSize&) {
    return "needs a size";
  } catch (const FitError& error) {
    return std::to_string(error.term) + ": " + error.what();
  } catch (const NotationError& error) {
    return error.what();
  }
  return all;
}

}  // namespace

TEST(a_product_is_cut_by_each_factor_and_passes_each_partial) {
  CHECK_EQ(rows("m k, k n -> m n", call_of({{4, 8}, {8, 2}})), "S0 S0 R, P S1 S0, S1 R S1");
  CHECK_EQ(rows("*m k, *k n -> m n", call_of({{4, 8}, {8, 2}})),
           "S0 S0 R, P S1 S0, S1 R S1, P P R, P R P, P1 P1 R, P1 R P1");
}

TEST(what_is_added_to_a_pending_sum_is_pending_too) {
  CHECK_EQ(rows("+m n, *m k, *k n -> m n", call_of({{2}, {4, 8}, {8, 2}})),
           "S0 R S0 R, S1 S0 R S1, P P S1 S0, P P P R, P P R P, P1 P1 P1 R, P1 P1 R P1");
  // The sum is over the first operand only: the product must be pending by way of one factor.
  CHECK_EQ(rows("+m k, *m, *m -> m", call_of({{4, 8}, {4}, {4}})),
           "S0 S0 S0 S0, P S1 P R, P S1 R P, P P P R, P P R P, P1 P1 P1 R, P1 P1 R P1");
}

TEST(a_broadcast_summand_is_whole_under_a_sum) {
  CHECK_EQ(rows("+m k, +m k -> m", call_of({{4, 8}, {4, 1}})), "S0 S0 S0, P S1 R, P P P, P1 P1 P1");
}

TEST(no_row_where_one_output_would_need_a_summand_whole_and_another_pending) {
  CHECK_EQ(rows("+m k, +m -> m, m k", call_of({{4, 8}, {4}})), "S0 S0 S0 S0, P P P P, P1 P1 P1 P1");
  CHECK_EQ(rows("m k, m -> m, m k", call_of({{4, 8}, {4}})), "S0 S0 S0 S0, P S1 S1 R");
}

TEST(other_dims_are_aligned_from_the_right_and_stretched_ones_are_whole) {
  CHECK_EQ(rows("..., ... -> ...", call_of({{4, 1}, {3, 4, 8}})), "S0 R S0, S1 S0 S1, S2 R S2");
  CHECK_EQ(rows("..., ... -> ...", call_of({{}, {}})), "");
  CHECK_EQ(rows("... n, n -> ... n", call_of({{2, 3, 4}, {4}})), "S0 S0 R, S1 S1 R, S2 S2 S0");
  CHECK_EQ(rows("...! k -> ... k", call_of({{2, 3, 4}})), "S2 S2");
}

TEST(an_argument_names_dims_wherever_they_are) {
  const NotedCall call = call_of({{2, 3, 4}}, {number(-2)});
  CHECK_EQ(rows("... n@dim! -> ... n@dim", call), "S0 S0, S2 S2");
  CHECK_EQ(rows("... k@dim:max -> ...", call), "S0 S0, S1 S2, P4 S1");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{2, 3, 4}}, {numbers({2, 0})})), "S0 S1, P S0, P S2");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{2, 3}}, {kNothing})), "P S0, P S1");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{2, 3}}, {numbers({})})), "P S0, P S1");
  CHECK_EQ(rows("... -> ... k@dim", call_of({{2, 3}}, {number(0)})), "S1 S0, S2 S1");
  CHECK_EQ(rows("... n@dim! -> ... n@dim", call_of({{}}, {number(-1)})), "");
}

TEST(dims_move_with_their_names) {
  CHECK_EQ(rows("a@dims -> a", call_of({{2, 3, 4}}, {numbers({2, 0, -2})})), "S1 S0, S2 S1, S0 S2");
  CHECK_EQ(
      rows("... a@from b@to -> ... b@from a@to", call_of({{2, 3, 4}}, {number(0), number(-1)})),
      "S1 S1, S2 S0, S0 S2");
}

TEST(keepdim_leaves_dims_of_size_1) {
  NotedCall call = call_of({{2, 3, 4}}, {number(1)});
  call.keepdim = true;
  CHECK_EQ(rows("... k@dim -> ...", call), "S0 S0, S2 S2, P S1");
  CHECK_EQ(rows("... k@dim -> ... 1@dim", call), "S0 S0, S2 S2, P S1");
  CHECK_EQ(rows("... k@dim! -> ... k@dim, ...", call), "S0 S0 S0, S2 S2 S2");
}

TEST(an_argument_counts_dims) {
  const auto call = call_of({{5, 2, 3}, {2, 3}}, {numbers({2, kUnread})});
  CHECK_EQ(rows("... n#shape!, n#shape -> ... n#shape, ... 1#shape", call), "S0 S0 S0 R");
  CHECK_EQ(rows("... n#shape, n -> n", call), "P S0 R, S0 S1 S0, S1 S2 S1");
  CHECK_EQ(rows("... n#count -> ...", call_of({{5, 2, 3}}, {number(1)})), "S0 S0, S1 S1, P S2");
}

TEST(a_merged_dim_is_cut_outside_and_evenly) {
  NotedCall call = call_of({{2, 3, 32}});
  give_outputs(call, {NotedShape{2, 3, 4, 8}});
  CHECK_EQ(rows("b s (h d) -> b s h d", call), "S0 S0, S1 S1, S2e S2ex8");
}

TEST(a_merged_dim_is_cut_at_its_first_factor_that_is_not_1) {
  CHECK_EQ(rows("a b c -> (a b c)", call_of({{1, 3, 4}})), "S0ex4 S1e");
  CHECK_EQ(rows("a b -> (a b)", call_of({{1, 1}})), "");
  CHECK_EQ(rows("a b -> (a b)", call_of({{4, 1}})), "S0 S0");
  CHECK_EQ(rows("a{min=2,multiple=3} b -> (a b)", call_of({{4, 5}})), "S0em10x15 S0em2x3");
  CHECK_EQ(rows("(a b), b -> a b", call_of({{12}, {4}})), "S0e S0ex4 R");
  CHECK_EQ(rows("a! b -> (a b)", call_of({{4, 5}})), "");
}

TEST(lists_have_a_cell_per_tensor) {
  NotedCall call;
  call.operands = {NotedTensors{NotedShape{4, 3}, std::nullopt, NotedShape{4, 5}}};
  call.arguments = {number(1)};
  CHECK_EQ(rows("[+... k@dim!] -> ... k@dim", call), "S0 S0 S0, P P P, P1 P1 P1");
  call.operands = {NotedTensors{NotedShape{4, 3}}};
  call.outputs = {{NotedTensors{NotedShape{4, 2}, NotedShape{4, 1}}}};
  CHECK_EQ(rows("... k@dim! -> [... k@dim]", call), "S0 S0 S0");
  call.operands = {NotedTensors{}};
  call.outputs = {{NotedTensors{}}};
  CHECK_EQ(rows("[+...] -> [...]", call), "");
  call.operands = {NotedTensors{NotedShape{4}, NotedShape{4}}};
  call.outputs.reset();
  call.arguments.clear();
  CHECK_EQ(rows("[*...] -> ...", call), "S0 S0 S0, P P R, P R P, P1 P1 R, P1 R P1");
}

TEST(optional_tensors_have_no_place_where_they_are_not_given) {
  NotedCall call = call_of({{4, 8}});
  call.operands.push_back({});
  CHECK_EQ(rows("m n, +n -> m n", call), "S0 S0, S1 S1");
  CHECK_EQ(rows("m n, _ -> m n, _", call), "S0 R S0, S1 R S1");
  CHECK_EQ(rows("m n, _ -> m n; R, P -> P; P, R -> P", call), "S0 S0, S1 S1, P P");
  call.operands[1] = {NotedShape{7, 7}};
  CHECK_EQ(rows("m n, _ -> m n, _", call), "S0 R S0 R, S1 R S1 R");
  give_outputs(call, {NotedShape{4, 8}, std::nullopt});
  CHECK_EQ(rows("m n, _ -> m n, m", call), "S0 - S0 R, S1 - S1 R");
}

TEST(a_side_without_text_is_a_scalar_or_nothing) {
  CHECK_EQ(rows("*k, *k ->", call_of({{4}, {4}})), "P S0 S0, P P R, P R P, P1 P1 R, P1 R P1");
  NotedCall call = call_of({{4}});
  call.no_outputs = true;
  CHECK_EQ(rows("k ->", call), "S0");
  call = {};
  call.operands = {NotedTensors{}};
  CHECK_EQ(rows("-> n", call), "");
}

TEST(rows_written_out_come_last_and_once) {
  CHECK_EQ(rows("..., ... -> ...; P(max), P(max) -> P(max); S(0), S(0) -> S(0); R, R -> R",
                call_of({{4}, {4}})),
           "S0 S0 S0, P4 P4 P4");
  CHECK_EQ(rows("a -> a, a; S(0) -> S(0), -; R -> R, -", call_of({{4}})),
           "S0 S0 S0, S0 - S0, R - R");
  CHECK_EQ(rows("a -> a; S(1) -> R", call_of({{4}})),
           "0: Expected a tensor dim below 1 in row 0 of those written out, got S(1).");
}

TEST(asks_are_passed_on_and_an_average_asks_for_even_shards) {
  CHECK_EQ(rows("m{even} k{min=2,multiple=8} -> m k", call_of({{4, 8}})), "S0e S0e, S1m2x8 S1m2x8");
  CHECK_EQ(rows("m k:avg -> m", call_of({{4, 8}})), "S0 S0, P1 S1e");
  CHECK_EQ(rows("...{same} k@dim!, ... m@dim -> ... m@dim",
                call_of({{4, 3, 5}, {4, 2, 1}}, {number(1)})),
           "S0 S0 S0, S1 R S1");
}

TEST(nothing_is_cut_or_pending_where_no_output_says_what_becomes_of_it) {
  CHECK_EQ(rows("+m -> _", call_of({{4}})), "");
  CHECK_EQ(rows("+m -> _, m", call_of({{4}})), "R S0 S0, R P P, R P1 P1");
  NotedCall call = call_of({{4}});
  call.no_outputs = true;
  CHECK_EQ(rows("+m ->", call), "S0");
}

TEST(a_factor_of_the_same_sizes_is_not_broadcast) {
  CHECK_EQ(rows("...{same}, ... -> ...", call_of({{4, 3}, {3}})), "S1 S1 S0");
  CHECK_EQ(rows("...{same}, ... -> ...", call_of({{4, 3}, {4, 1}})), "S0 S0 S0");
  CHECK_EQ(rows("m{same}, m -> m", call_of({{4}, {3}})), "");
}

TEST(what_does_not_fit_is_named) {
  CHECK_EQ(rows("m k, k n -> m n", call_of({{4, 8}, {7, 2}})),
           "1: Expected size 8 of \"k\", as in operand 0, got 7.");
  CHECK_EQ(rows("m k, k n -> m n", call_of({{4, 8, 1}, {8, 2}})),
           "0: Expected 2 dims, got shape (4, 8, 1).");
  CHECK_EQ(rows("mk, kn -> mn", call_of({{4, 8}, {8, 2}})),
           "0: Expected 1 dim, got shape (4, 8). Names are separated by blanks: \"m k\".");
  CHECK_EQ(rows("m k, k n -> m n", call_of({{8}, {8, 2}})),
           "0: Expected a dim \"m\", which no other has, got shape (8,).");
  CHECK_EQ(rows("m 1 -> m", call_of({{8, 2}})), "0: Expected size 1 of dim 1, got 2.");
  CHECK_EQ(rows("(a b), b -> a b", call_of({{10}, {4}})),
           "0: Expected a multiple of 4 as size of dim 0, got 10.");
  CHECK_EQ(rows("(a b), a, b -> a b", call_of({{10}, {4}, {2}})),
           "0: Expected size 8 of the merged dim 0, got 10.");
  CHECK_EQ(rows("(a b) -> a b", call_of({{10}})),
           "0: Expected one size of \"a\" for the merged dim 0, got none.");
  NotedCall call = call_of({{4, 8}});
  give_outputs(call, {NotedShape{4, 7}});
  CHECK_EQ(rows("m k -> m k", call), "1: Expected size 8 of \"k\", as in operand 0, got 7.");
  give_outputs(call, {NotedShape{4}});
  CHECK_EQ(rows("m k -> m k", call), "1: Expected 2 dims, got shape (4,).");
}

TEST(arguments_that_do_not_fit_are_named) {
  CHECK_EQ(rows("... k@dim -> ...", call_of({{4, 8}}, {number(2)})),
           "0: Expected argument \"dim\" to name a dim from -2 to 1, got 2.");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{}}, {number(1)})),
           "0: Expected argument \"dim\" to name a dim from -1 to 0, got 1.");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{4, 8}}, {numbers({0, -2})})),
           "0: Expected each dim to be named once, got dim 0 again from argument \"dim\".");
  CHECK_EQ(rows("... n#shape -> ...", call_of({{4, 8}}, {kNothing})),
           "argument \"shape\": Expected a number of dims or a list with an element for each, got "
           "None.");
  CHECK_EQ(rows("... n#count -> ...", call_of({{4, 8}}, {number(-1)})),
           "argument \"count\": Expected a number of dims from 0 to 64, got -1.");
  CHECK_EQ(rows("... -> ... k@dim", call_of({{4, 8}}, {kNothing})),
           "1: Expected argument \"dim\" to name the dims of \"k\", which no operand has, got "
           "none.");
}

TEST(expressions_are_compared_only_where_they_must_be) {
  CHECK_EQ(rows("m k, k n -> m n", call_of({{-1, -2}, {-2, 4}})), "S0 S0 R, P S1 S0, S1 R S1");
  CHECK_EQ(rows("..., ... -> ...", call_of({{-1, 4}, {1, 4}})), "S0 S0 R, S1 S1 S1");
  CHECK_EQ(rows("..., ... -> ...", call_of({{-1}, {4}})), "needs a size");
  CHECK_EQ(rows("..., ... -> ...", call_of({{-1}, {-2}})), "needs a size");
  CHECK_EQ(rows("a b -> (a b)", call_of({{-1, 4}})), "needs a size");
  CHECK_EQ(rows("... k@dim -> ...", call_of({{4, 8}}, {number(kUnread)})), "needs a size");
  CHECK_EQ(rows("[... k@dim!] -> ... k@dim", call_of({{-1, 4}}, {number(1)})), "S0 S0");
}

TEST(each_row_has_the_part_of_the_rule_that_it_follows_from) {
  const auto origins = [](const char* text, const NotedCall& call) {
    std::string all;
    for (const std::string& origin : origins_of(parse_notation(text), call)) {
      all += all.empty() ? origin : ", " + origin;
    }
    return all;
  };
  CHECK_EQ(origins("*m k, *k n! -> m n", call_of({{4, 8}, {8, 2}})),
           "cutting m, cutting k, mark *, mark *, mark *, mark *");
  CHECK_EQ(origins("+..., *... -> ...", call_of({{4, 8}, {8}})),
           "cutting ..., cutting ..., marks + and *, marks + and *");
  // Rows that are there already are not repeated, nor are their origins.
  CHECK_EQ(origins("+... -> ...; P -> P; P(max) -> P(max)", call_of({{4}})),
           "cutting ..., mark +, mark +, row 1 of those written out");
}
