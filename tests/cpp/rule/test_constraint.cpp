#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "random_problem.h"
#include "rule/constraint.h"
#include "search/enumerate.h"
#include "search/region.h"
#include "search/search.h"

using namespace shardprop;

namespace {

using Sizes = std::multiset<std::int64_t>;

// What each rank holds, rank by rank, as torch.chunk gives it out: plain shards, in order.
Sizes held(std::int64_t size, std::span<const Cut> cuts) {
  Sizes all{size};
  for (const Cut& cut : cuts) {
    Sizes next;
    for (const std::int64_t before : all) {
      const std::int64_t chunk = (before + cut.ranks - 1) / cut.ranks;
      for (std::int64_t rank = 0; rank < cut.ranks; ++rank) {
        next.insert(std::clamp<std::int64_t>(before - rank * chunk, 0, chunk));
      }
    }
    all = std::move(next);
  }
  return all;
}

bool by_hand(const Constraint& constraint, const Sizes& sizes) {
  const bool even = *sizes.begin() == *sizes.rbegin();
  return (even || !constraint.even) && *sizes.begin() >= constraint.least &&
         std::all_of(sizes.begin(), sizes.end(),
                     [&](auto n) { return n % constraint.multiple == 0; });
}

Problem one_operand(std::int64_t size, std::vector<std::int64_t> mesh,
                    const Constraint& constraint) {
  Problem problem;
  problem.mesh = ring_mesh(mesh, 8);
  RowTable rule{1, 1, {placeholder(0), placeholder(0)}, {}};
  if (!(constraint == Constraint{})) rule.constraints.set(1, constraint);
  const std::vector<ShardKind> kinds{0};
  problem.table = fill_placeholders(with_replicate_row(rule, {}, false), kinds).table;
  Operand operand;
  operand.info = {{size}, 4};
  const std::vector<Placement> placements(mesh.size(), shard(0));
  operand.layout = default_layout(placements);
  problem.operands = {operand};
  problem.positional = 1;
  return problem;
}

int rows_that_shard(const Problem& problem) {
  const Decision decision = decide(problem);
  CHECK_EQ(decision.verdict, Verdict::kFound);
  int sharded = 0;
  for (int m = 0; m < problem.mesh.ndim; ++m) sharded += decision.rows[m] == 1;
  return sharded;
}

}  // namespace

TEST(asks_hold_as_counted_rank_by_rank) {
  std::mt19937_64 random(11);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int yes = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<Cut> cuts;
    std::int64_t ranks = 1;
    for (int c = pick(0, 3); c > 0; --c) cuts.push_back({pick(1, 5), 1});
    const std::int64_t size = pick(0, 40);
    const Constraint constraint{pick(0, 1) == 1, pick(1, 4), pick(1, 4)};
    const bool expected = by_hand(constraint, held(size, cuts));
    yes += expected;
    CHECK_EQ(holds(constraint, size, cuts, true), expected);
    if (!expected) continue;
    CHECK(may_hold(constraint, size, 1));
    for (const Cut& cut : cuts) CHECK(may_hold(constraint, size, ranks *= cut.ranks));
  }
  CHECK(yes > 1000);
}

TEST(strided_and_reordered_cuts_are_known_only_where_they_are_even) {
  const std::vector<Cut> plain{{2, 1}, {2, 1}}, strided{{2, 2}, {2, 1}};
  const Constraint least{false, 1, 1};
  CHECK(holds(least, 10, plain, true));
  CHECK(!holds(least, 10, plain, false));
  CHECK(holds({true, 2, 2}, 8, plain, false));
  CHECK(holds({true, 2, 2}, 8, strided, true));
  CHECK(!holds(least, 10, strided, true));
  // 4 elements: the strided cut takes one of each half, the other what is left.
  CHECK(holds({true, 1, 1}, 4, strided, true));
}

TEST(each_piece_of_a_strided_shard_is_a_multiple) {
  const std::vector<Cut> strided{{2, 4}};
  CHECK(holds({true, 1, 4}, 32, strided, true));
  // 24 elements: each rank has 12 in four pieces of 3.
  CHECK(!holds({true, 1, 4}, 24, strided, true));
  CHECK(holds({true, 1, 3}, 24, strided, true));
}

TEST(an_ask_follows_its_row_through_expansion) {
  RowTable rule{1, 1, {placeholder(0), placeholder(0), shard(1), shard(1)}, {}};
  rule.constraints.set(0, {true, 1, 1});
  rule.constraints.set(1, {false, 2, 1});
  rule.constraints.set(3, {true, 1, 1});
  const RowTable with = with_replicate_row(rule, {}, false);
  const std::vector<ShardKind> kinds{0, 4};
  const RowTable table = fill_placeholders(with, kinds).table;
  CHECK_EQ(table.rows(), 4);
  CHECK(table.constraints.of(0) == nullptr && table.constraints.of(1) == nullptr);
  for (const int row : {1, 2}) {
    CHECK(*table.constraints.of(2 * row) == (Constraint{true, 1, 1}));
    CHECK(*table.constraints.of(2 * row + 1) == (Constraint{false, 2, 1}));
  }
  CHECK(table.constraints.of(6) == nullptr);
  CHECK(*table.constraints.of(7) == (Constraint{true, 1, 1}));
}

TEST(a_rule_without_asks_has_none) { CHECK(RowTable{}.constraints.empty()); }

TEST(as_many_mesh_dims_cut_as_the_ask_allows) {
  CHECK_EQ(rows_that_shard(one_operand(16, {2, 4}, {true, 1, 1})), 2);
  CHECK_EQ(rows_that_shard(one_operand(12, {2, 4}, {true, 1, 1})), 1);
  CHECK_EQ(rows_that_shard(one_operand(9, {2, 4}, {true, 1, 1})), 0);
  CHECK_EQ(rows_that_shard(one_operand(16, {2, 4}, {false, 4, 1})), 1);
  CHECK_EQ(rows_that_shard(one_operand(16, {2, 4}, {false, 1, 8})), 1);
  CHECK_EQ(rows_that_shard(one_operand(16, {2, 4}, {false, 1, 3})), 0);
}

TEST(asks_of_outputs_are_counted_too) {
  Problem problem = one_operand(16, {2, 4}, {});
  problem.output_shapes = {{6}};
  problem.table.constraints.set(2, {true, 1, 1});
  CHECK_EQ(rows_that_shard(problem), 1);
}

TEST(no_region_is_made_of_rows_that_ask) {
  const Problem problem = one_operand(16, {2, 4}, {true, 1, 1});
  CHECK(!region_of(problem, decide(problem)));
  const Problem plain = one_operand(16, {2, 4}, {});
  CHECK(region_of(plain, decide(plain)).has_value());
}
