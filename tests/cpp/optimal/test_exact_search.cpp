#include <algorithm>
#include <cmath>
#include <optional>

#include "check.h"
#include "optimal/exact_plan.h"
#include "optimal/exact_prices.h"
#include "random_layouts.h"
#include "random_problem.h"
#include "search/enumerate.h"
#include "search/search.h"

using namespace shardprop;

namespace {

// Every valid strategy priced, each operand by its own plan; the first of the cheapest.
struct Best {
  Price price = kNoPrice;
  Rows rows{};
};

Price price_of_rows(const Problem& problem, const CostModel& model, const Rows& rows) {
  Price total = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const Operand& operand = problem.operands[i];
    if (operand.where == Operand::Where::kPinned) continue;
    if (operand.where == Operand::Where::kForeign) return kNoPrice;
    const Layout wanted = layout_at(problem, problem.table.outputs + static_cast<int>(i), rows);
    total = add(total, exact_plan(model, operand.info, operand.layout, wanted, 0.0, nullptr).price);
  }
  return total;
}

Best enumerate_all(const Problem& problem, const CostModel& model) {
  Best best;
  (void)for_each_valid(problem, [&](const Rows& rows) {
    if (problem.accepts && !problem.accepts(rows)) return Visit::kRejected;
    const Price price = price_of_rows(problem, model, rows);
    if (price < best.price) best = {price, rows};
    return Visit::kTaken;
  });
  return best;
}

// torch refuses such operands, and so does the planner.
bool has_mixed_partials(const Problem& problem) {
  for (const Operand& operand : problem.operands) {
    for (int a = 0; a < problem.mesh.ndim; ++a) {
      for (int b = 0; b < problem.mesh.ndim; ++b) {
        const Placement x = operand.layout.placements[a], y = operand.layout.placements[b];
        if (x.is_partial() && y.is_partial() && !may_mix(x.value, y.value)) return true;
      }
    }
  }
  return false;
}

CostModel model_for(const Problem& problem, std::mt19937_64& random) {
  const std::vector<std::int64_t> sizes(problem.mesh.size.begin(),
                                        problem.mesh.size.begin() + problem.mesh.ndim);
  return testing::random_model(random, sizes, 50);
}

// Calls `visit(problem, model)` for random problems in which unmoved operands have no precedence.
void on_random_problems(int seed, int count, const auto& visit) {
  testing::RandomProblem problems(seed);
  std::mt19937_64 random(seed + 1);
  for (int i = 0; i < count; ++i) {
    Problem problem = problems.next();
    problem.prefers_no_redistribute = false;
    problem.op_hashes = testing::kOpHashes;  // torch's choice may be asked for
    if (has_mixed_partials(problem)) continue;
    visit(problem, model_for(problem, random));
  }
}

// None where nothing that is known can be reached.
std::optional<ExactDecision> decided(const Problem& problem, const ExactTerms& terms) {
  try {
    return decide_exactly(problem, terms);
  } catch (const SearchTooLong&) {
    return std::nullopt;
  }
}

}  // namespace

TEST(the_exact_search_finds_the_least_total_of_all_strategies) {
  int moved = 0;
  on_random_problems(3, 200, [&](const Problem& problem, const CostModel& model) {
    const Best best = enumerate_all(problem, model);
    const ExactDecision exact = decide_exactly(problem, {model});
    const bool found = exact.decision.verdict == Verdict::kFound;
    CHECK_EQ(found, best.price < kNoPrice);
    if (!found) return;
    CHECK_EQ(price_of_rows(problem, model, exact.decision.rows), best.price);
    CHECK_EQ(exact.decision.rows, best.rows);
    moved += best.price > 0;
  });
  CHECK(moved > 40);
}

TEST(where_the_proof_is_given_up_the_gap_holds_and_torchs_choice_is_no_cheaper) {
  int unproved = 0, dearer = 0;
  on_random_problems(7, 300, [&](const Problem& problem, const CostModel& model) {
    ExactTerms terms{model};
    terms.most_moves = 0;
    const std::optional<ExactDecision> exact = decided(problem, terms);
    if (!exact || exact->decision.verdict != Verdict::kFound) return;
    const double least = microseconds(enumerate_all(problem, model).price);
    const double found = microseconds(price_of_rows(problem, model, exact->decision.rows));
    CHECK(std::abs(found - exact->decision.cost) <= 1e-9 * found);
    CHECK(found - exact->gap <= least + 1e-9 * found);
    const Decision torchs = decide(problem);
    if (torchs.verdict == Verdict::kFound) {
      CHECK(found <= microseconds(price_of_rows(problem, model, torchs.rows)));
    }
    unproved += exact->gap > 0.0;
    dearer += found > least;
  });
  CHECK(unproved > 40);
  CHECK(dearer > 5);
}

TEST(where_it_is_given_up_does_not_depend_on_what_was_asked_before) {
  int unproved = 0;
  on_random_problems(9, 300, [&](const Problem& problem, const CostModel& model) {
    BoundCache cache;
    ExactTerms terms{model};
    terms.cache = &cache;
    terms.most_moves = 600;
    const std::optional<ExactDecision> cold = decided(problem, terms);
    const std::optional<ExactDecision> warm = decided(problem, terms);
    CHECK_EQ(cold.has_value(), warm.has_value());
    if (!cold || !warm) return;
    CHECK_EQ(cold->moves, warm->moves);
    CHECK_EQ(cold->gap, warm->gap);
    CHECK_EQ(cold->decision.rows, warm->decision.rows);
    unproved += cold->gap > 0.0;
  });
  CHECK(unproved > 5);
}

TEST(what_needs_no_move_is_preferred_and_the_last_of_such) {
  testing::RandomProblem problems(5);
  std::mt19937_64 random(6);
  for (int i = 0; i < 200; ++i) {
    const Problem problem = problems.next();
    if (has_mixed_partials(problem)) continue;
    const CostModel model = model_for(problem, random);
    const ExactDecision exact = decide_exactly(problem, {model});
    if (exact.decision.verdict != Verdict::kFound) continue;
    CHECK_EQ(price_of_rows(problem, model, exact.decision.rows),
             enumerate_all(problem, model).price);
  }
}

TEST(a_partial_that_is_reduced_later_is_no_bargain) {
  // One mesh dim of 4 ranks. An operand sharded on its dim 1 may be summed where it is, into a
  // Partial, or be moved first.
  std::mt19937_64 random(1);
  CostModel model = testing::random_model(random, {4}, 0);
  for (Group& group : model.groups) group.prices.fill({10.0, 1e-3});
  model.kernel_us = model.memory_us_per_byte = 0.0;
  model.all_to_all_gathers = false;
  Problem problem;
  problem.mesh = ring_mesh(std::vector<std::int64_t>{4}, 4);
  problem.table.outputs = problem.table.inputs = 1;
  problem.table.cells = {replicate(),   replicate(),  // the output, then the operand
                         partial(kSum), shard(1),     //
                         shard(0),      shard(0)};
  problem.operands = {{default_layout(std::vector{shard(1)}), {{64, 64}, 4, 0}}};
  problem.positional = 1;
  const ExactDecision greedy = decide_exactly(problem, {model});
  CHECK_EQ(greedy.decision.rows[0], 1);
  ExactTerms terms{model};
  terms.output_weight = 1.0;
  terms.outputs = {{{{64, 64}, 4, 0}, std::nullopt}};
  const ExactDecision weighed = decide_exactly(problem, terms);
  // To exchange shards sends a quarter of what a rank holds; to scatter the sum, a quarter of four
  // times as much.
  CHECK_EQ(weighed.decision.rows[0], 2);
  CHECK_EQ(weighed.output_cost, 0.0);
}

TEST(torchs_choice_is_priced_where_outputs_have_too_many_layouts) {
  // A whole operand becomes any of 10,000 layouts for nothing, or stays; all but what stays cost
  // later.
  std::mt19937_64 random(1);
  CostModel model = testing::random_model(random, {2, 2, 2, 2}, 0);
  model.kernel_us = model.memory_us_per_byte = 0.0;
  Problem problem;
  problem.mesh = ring_mesh(std::vector<std::int64_t>{2, 2, 2, 2}, 16);
  problem.table.outputs = problem.table.inputs = 1;
  const std::vector<std::int64_t> shape(9, 16);
  for (int dim = 0; dim < 9; ++dim)
    problem.table.cells.insert(problem.table.cells.end(), 2, shard(dim));
  problem.table.cells.insert(problem.table.cells.end(), 2, replicate());
  problem.operands = {
      {default_layout(std::vector{replicate(), replicate(), replicate(), replicate()}),
       {shape, 4, 0}}};
  problem.positional = 1;
  problem.op_hashes = testing::kOpHashes;
  constexpr int kStays = 9;
  const auto stays = [](const Rows& rows) {
    return std::all_of(rows.begin(), rows.begin() + 4, [](int row) { return row == kStays; });
  };
  ExactTerms terms{model};
  terms.output_weight = 1.0;
  terms.outputs = {{{shape, 4, 0}, std::nullopt}};
  int priced = 0;
  terms.outputs[0].later_us = [&](const Rows& rows) {
    ++priced;
    return stays(rows) ? 1.0 : 2.0;
  };
  const ExactDecision exact = decide_exactly(problem, terms);
  CHECK(stays(exact.decision.rows));
  CHECK_EQ(exact.output_cost, 1.0);
  CHECK_EQ(exact.gap, 1.0);
  CHECK(priced > 4000 && priced < 5000);
}
