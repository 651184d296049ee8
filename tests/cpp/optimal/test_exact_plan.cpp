#include "check.h"
#include "layout_of.h"
#include "optimal/exact_plan.h"
#include "random_layouts.h"

using namespace shardprop;
using testing::random_layout;
using testing::random_model;

namespace {

struct Pair {
  CostModel model;
  TensorInfo info;
  Layout source, target;
};

Pair random_pair(std::mt19937_64& random) {
  const std::vector<std::vector<std::int64_t>> meshes{
      {4}, {2, 4}, {3, 2}, {1, 4}, {2, 2, 2}, {2, 4, 2}, {3, 2, 2}, {2, 2, 2, 2}};
  const std::vector<std::vector<std::int64_t>> shapes{
      {64, 64}, {48, 16, 32}, {7, 12}, {6, 1, 20}, {96}};
  const auto& sizes = meshes[random() % meshes.size()];
  Pair pair;
  pair.info = {shapes[random() % shapes.size()], 4, 0};
  pair.model = random_model(random, sizes, random() % 2 ? 60 : 0);
  const int dims = static_cast<int>(pair.info.shape.size());
  const ReduceOp op = random() % 3 ? kSum : kMax;
  pair.source = random_layout(random, static_cast<int>(sizes.size()), dims, op);
  pair.target = random_layout(random, static_cast<int>(sizes.size()), dims, op);
  return pair;
}

// What the cheapest plan is, found without any bound.
ExactPlan plain_search(const Pair& pair) {
  const Layout from = PlanSpace::normalise(pair.source, pair.info, pair.model);
  const Layout to = PlanSpace::normalise(pair.target, pair.info, pair.model);
  const PlanSpace space(pair.model, pair.info, from, {&to, 1});
  PlanSearch search(space, space.encode(from), 0.0);
  ExactPlan plan;
  while (true) {
    const std::uint32_t number = search.settle();
    if (number == FlatMap::kNone) return plan;
    const PlanSearch::Label& label = search.label(number);
    if (space.reached(label.state) != space.encode(to)) continue;
    plan.found = true;
    plan.price = label.price;
    plan.peak_bytes = label.peak_bytes;
    return plan;
  }
}

CostModel ring(std::vector<std::int64_t> sizes) {
  std::mt19937_64 random(1);
  CostModel model = random_model(random, std::move(sizes), 0);
  for (Group& group : model.groups) {
    group.prices.fill({10.0, 1e-4});
    group.prices[static_cast<int>(Collective::kAllReduce)] = {20.0, 1e-4};
  }
  model.kernel_us = 0.0;
  model.memory_us_per_byte = 0.0;
  model.all_to_all_gathers = false;
  return model;
}

std::vector<std::string> texts(const ExactPlan& plan) {
  std::vector<std::string> all;
  for (const PlannedStep& step : plan.steps) {
    all.push_back(std::string(name_of(step.move.kind)) + " " + to_string(step.after));
  }
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST(the_bound_changes_no_plan_but_the_time_it_takes) {
  std::mt19937_64 random(7);
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    const Pair pair = random_pair(random);
    const ExactPlan plain = plain_search(pair);
    const ExactPlan plan =
        exact_plan(pair.model, pair.info, pair.source, pair.target, 0.0, nullptr);
    CHECK_EQ(plan.found, plain.found);
    CHECK_EQ(plan.price, plain.price);
    CHECK_EQ(plan.peak_bytes, plain.peak_bytes);
    found += plan.found;
  }
  CHECK(found > 280);
}

TEST(the_bound_falls_along_a_move_by_no_more_than_its_price) {
  std::mt19937_64 random(8);
  std::vector<PlannedMove> moves;
  int looked_at = 0;
  for (int i = 0; i < 40; ++i) {
    const Pair pair = random_pair(random);
    const Layout from = PlanSpace::normalise(pair.source, pair.info, pair.model);
    const Layout to = PlanSpace::normalise(pair.target, pair.info, pair.model);
    const PlanSpace space(pair.model, pair.info, from, {&to, 1});
    const PlanBound bound(space, space.encode(to), nullptr);
    CHECK_EQ(bound.of(space.encode(to)), 0);
    PlanSearch search(space, space.encode(from), 0.0);
    MoveTable table(space, 0.0);
    for (int settled = 0; settled < 200; ++settled) {
      const std::uint32_t number = search.settle();
      if (number == FlatMap::kNone) break;
      const State state = search.label(number).state;
      table.from(state, moves);
      for (const PlannedMove& move : moves) {
        CHECK(bound.of(state) <= add(move.price, bound.of(move.to)));
        ++looked_at;
      }
    }
  }
  CHECK(looked_at > 15'000);
}

TEST(a_cached_bound_is_the_same_bound) {
  std::mt19937_64 random(9);
  const Pair pair = random_pair(random);
  BoundCache cache;
  for (int i = 0; i < 100; ++i) {
    const Layout target =
        random_layout(random, pair.model.ndim, static_cast<int>(pair.info.shape.size()), kSum);
    const ExactPlan with = exact_plan(pair.model, pair.info, pair.source, target, 0.0, &cache);
    const ExactPlan without = exact_plan(pair.model, pair.info, pair.source, target, 0.0, nullptr);
    CHECK_EQ(texts(with), texts(without));
  }
}

TEST(a_reduction_scatters_first_and_gathers_last) {
  // A quarter of the bytes crosses mesh dim 0.
  CostModel model = ring({2, 4});
  model.groups[0].prices.fill({10.0, 1e-2});
  const TensorInfo info{{64, 64}, 4, 0};
  const ExactPlan plan = exact_plan(model, info, layout_of({partial(kSum), partial(kSum)}),
                                    layout_of({replicate(), replicate()}), 0.0, nullptr);
  CHECK_EQ(texts(plan), (Texts{"reduce_scatter P(0) S(0)", "all_reduce R S(0)", "all_gather R R"}));
}

TEST(an_uneven_dim_is_not_gathered_over_a_flattened_mesh) {
  CostModel model = ring({2, 2});
  Group both;
  both.mesh_dims = {0, 1};
  both.ranks = 4;
  both.prices.fill({10.0, 1e-4});
  model.groups.push_back(both);
  const Layout source = layout_of({shard(0), shard(0)}),
               target = layout_of({replicate(), replicate()});
  const ExactPlan even = exact_plan(model, {{8}, 4, 0}, source, target, 0.0, nullptr);
  CHECK_EQ(texts(even), (Texts{"all_gather R R"}));
  const ExactPlan uneven = exact_plan(model, {{6}, 4, 0}, source, target, 0.0, nullptr);
  CHECK_EQ(texts(uneven), (Texts{"all_gather S(0) R", "all_gather R R"}));
}

TEST(shards_change_places_over_a_flattened_mesh) {
  CostModel model = ring({2, 4});
  Group both;
  both.mesh_dims = {0, 1};
  both.ranks = 8;
  both.prices.fill({10.0, 1e-4});
  model.groups.push_back(both);
  const ExactPlan plan = exact_plan(
      model, {{8, 8}, 4, 0}, layout_of({shard(0), shard(1)}),
      [] {
        Layout target = layout_of({shard(0), shard(0)});
        target.position = {1, 0};
        return target;
      }(),
      0.0, nullptr);
  CHECK_EQ(texts(plan), (Texts{"all_to_all S(0) S(0)", "permute S(0)[1] S(0)[0]"}));
}

TEST(a_memory_limit_takes_another_way_or_none) {
  const CostModel model = ring({4});
  const TensorInfo info{{64, 64}, 4, 0};  // 16 KiB
  const Layout source = layout_of({shard(0)}), target = layout_of({replicate()});
  const ExactPlan plan = exact_plan(model, info, source, target, 0.0, nullptr);
  CHECK_EQ(plan.peak_bytes, 16384.0 + 4096.0);
  CHECK(exact_plan(model, info, source, target, plan.peak_bytes, nullptr).found);
  CHECK(!exact_plan(model, info, source, target, plan.peak_bytes - 1.0, nullptr).found);
}

TEST(nothing_makes_a_product_of_replicated_data) {
  const ExactPlan plan = exact_plan(ring({4}), {{8}, 4, 0}, layout_of({replicate()}),
                                    layout_of({partial(kProduct)}), 0.0, nullptr);
  CHECK(!plan.found);
}

TEST(steps_of_others_are_priced_if_they_are_moves) {
  const CostModel model = ring({2, 2});
  const TensorInfo info{{8, 8}, 4, 0};
  const Layout source = layout_of({shard(0), shard(0)});
  const std::vector<ForeignStep> legal{{{1}, layout_of({shard(0), replicate()})},
                                       {{0}, layout_of({replicate(), replicate()})}};
  const ExactPlan plan =
      price_steps(model, info, source, layout_of({replicate(), replicate()}), legal);
  CHECK(plan.found);
  CHECK_EQ(plan.steps.size(), 2u);
  CHECK_EQ(collectives(plan.price), 2);
  // The outer cut cannot be undone before the inner one.
  const std::vector<ForeignStep> wrong{{{0}, layout_of({replicate(), shard(0)})}};
  CHECK(!price_steps(model, info, source, layout_of({replicate(), shard(0)}), wrong).found);
  // Not where it was to lead.
  CHECK(!price_steps(model, info, source, layout_of({replicate(), shard(1)}), legal).found);
}
