#include "check.h"
#include "search/strategy_table.h"

using namespace shardprop;

namespace {

// A pointwise op on a mesh of 2 x 4: rows R, S(0), S(1) alike for the output and the operand.
Problem pointwise(std::vector<std::int64_t> shape) {
  Problem problem;
  problem.mesh.ndim = 2;
  problem.mesh.size = {2, 4};
  problem.table.outputs = 1;
  problem.table.inputs = 1;
  for (const Placement p : {replicate(), shard(0), shard(1)}) {
    problem.table.cells.insert(problem.table.cells.end(), {p, p});
  }
  Operand operand;
  operand.layout = default_layout(std::vector<Placement>(2));
  operand.info = {std::move(shape), 4, 0};
  problem.operands.push_back(operand);
  problem.positional = 1;
  return problem;
}

StrategyTerms from(std::vector<Layout> layouts) { return {{}, {std::move(layouts)}}; }

}  // namespace

TEST(strategies_come_in_the_order_of_the_product) {
  const StrategyTable table = strategy_table(pointwise({64, 64}), from({}));
  CHECK_EQ(table.strategies, std::size_t{9});
  CHECK_EQ(table.examples.size(), std::size_t{9});
  for (std::size_t s = 0; s < 9; ++s) {
    const auto number = static_cast<std::int32_t>(s);
    CHECK_EQ(table.layouts[2 * s], number);
    CHECK_EQ(table.layouts[2 * s + 1], number);  // one layout, one number
    const Rows rows = table.examples[s].rows;
    CHECK(rows[0] == s / 3 && rows[1] == s % 3);  // the last mesh dim varies fastest
  }
}

TEST(rows_that_are_equal_count_once) {
  Problem problem = pointwise({64, 64});
  problem.table.cells.insert(problem.table.cells.end(), {shard(0), shard(0)});
  CHECK_EQ(strategy_table(problem, from({})).strategies, std::size_t{9});
}

TEST(shards_that_are_too_small_stay_only_where_a_source_has_them) {
  Problem problem = pointwise({3, 64});
  const std::vector<Placement> rows{replicate(), shard(0)};
  const Layout there = default_layout(rows);
  CHECK_EQ(strategy_table(problem, from({there})).strategies, std::size_t{6});
  problem.allow_uneven = true;
  CHECK_EQ(strategy_table(problem, from({})).strategies, std::size_t{6});
  CHECK_EQ(strategy_table(problem, from({there})).strategies, std::size_t{7});
}

TEST(what_is_written_is_placed_like_the_operand) {
  Problem problem = pointwise({64, 64});
  problem.table.cells.insert(problem.table.cells.end(), {partial(kSum), replicate()});
  CHECK_EQ(strategy_table(problem, from({})).strategies, std::size_t{16});
  StrategyTerms terms = from({});
  terms.written.push_back({0, 0});
  CHECK_EQ(strategy_table(problem, terms).strategies, std::size_t{9});
}

TEST(absent_outputs_have_no_layout) {
  Problem problem = pointwise({64, 64});
  for (int r = 0; r < 3; ++r) problem.table.cells[2 * r] = absent();
  const StrategyTable table = strategy_table(problem, from({}));
  CHECK_EQ(table.strategies, std::size_t{9});
  for (std::size_t s = 0; s < 9; ++s) CHECK_EQ(table.layouts[2 * s], StrategyTable::kAbsent);
}
