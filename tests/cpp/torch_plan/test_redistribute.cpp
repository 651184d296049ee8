#include "check.h"
#include "layout_of.h"
#include "torch_plan/greedy.h"
#include "torch_plan/redistribute.h"
#include "torch_plan/transition.h"

using namespace shardprop;

namespace {

constexpr std::uint64_t kOpHashes[] = {1, 2, 3, 4, 5, 6, 7, 8};

Plan plan(const Layout& src, const Layout& dst, const TensorInfo& info, bool force_graph = false) {
  static const Mesh mesh = ring_mesh(std::vector<std::int64_t>{2, 4}, 8);
  const std::vector<std::int64_t> coordinate{1, 2};
  return plan_redistribute(src, dst, mesh, info, coordinate, force_graph, {}, kOpHashes);
}

std::string text(const Plan& plan) {
  std::string all;
  for (const Move& move : plan.moves) {
    all +=
        std::to_string(move.mesh_dim) + ":" + to_string(move.from) + ">" + to_string(move.to) + " ";
  }
  return all;
}

}  // namespace

TEST(greedy_replicates_a_misaligned_shard_first) {
  const Plan p =
      plan(layout_of({shard(0), shard(0)}), layout_of({replicate(), shard(0)}), {{10, 8}, 4});
  CHECK_EQ(text(p), "1:S(0)>R 0:S(0)>R 1:R>S(0) ");
  CHECK_EQ(p.moves[0].logical_shapes, (std::vector<std::int64_t>{5, 8}));
  CHECK_EQ(p.moves[1].logical_shapes, (std::vector<std::int64_t>{10, 8}));
}

TEST(a_plan_for_several_ranks_has_the_shapes_of_each) {
  const Mesh mesh = ring_mesh(std::vector<std::int64_t>{2, 4}, 8);
  const std::vector<std::int64_t> coordinates{0, 0, 1, 3};
  const TensorInfo info{{5, 3}, 4};
  const Layout src = layout_of({shard(0), shard(0)}), dst = layout_of({shard(0), replicate()});
  for (const bool by_graph : {false, true}) {
    const Plan p = plan_redistribute(src, dst, mesh, info, coordinates, by_graph, {}, kOpHashes);
    CHECK_EQ(p.by_graph, by_graph);
    CHECK_EQ(p.moves.size(), 1u);
    CHECK_EQ(p.moves[0].logical_shapes, (std::vector<std::int64_t>{3, 3, 2, 3}));
  }
}

TEST(greedy_reduces_a_misaligned_partial_before_it_chunks) {
  CHECK_EQ(text(plan(layout_of({shard(0), partial(kSum)}), layout_of({replicate(), shard(0)}),
                     {{8, 8}, 4})),
           "1:P(0)>R 0:S(0)>R 1:R>S(0) ");
}

TEST(a_shard_order_takes_the_graph) {
  Layout src = layout_of({shard(0), shard(0)});
  src.position = {1, 0};
  const Plan p = plan(src, layout_of({shard(0), replicate()}), {{16, 8}, 4});
  CHECK(p.by_graph);
  CHECK(!p.moves.empty());
}

TEST(strided_shards_of_no_order_go_greedy) {
  const Plan p = plan(unordered_layout(std::vector{strided_shard(0, 5), shard(0)}),
                      layout_of({replicate(), shard(0)}), {{40, 8}, 4});
  CHECK(!p.by_graph);
  CHECK_EQ(text(p), "0:SS(0, 5)>R ");
}

TEST(an_unreachable_layout_says_so) {
  CHECK_EQ(
      plan(layout_of({replicate(), shard(0)}), layout_of({opaque(1), shard(0)}), {{8, 8}, 4}, true)
          .status,
      PlanStatus::kUnreachable);
}

TEST(prices_without_a_plan_follow_torchs_branches) {
  const Layout r = layout_of({replicate(), replicate()});
  const Layout s = layout_of({shard(0), replicate()});
  const Layout ss = unordered_layout(std::vector{strided_shard(0, 4), shard(0)});
  CHECK_EQ(cost_without_plan(r, s, true), 0.0);
  CHECK_EQ(cost_without_plan(s, s, true), 0.0);
  CHECK_EQ(cost_without_plan(s, r, false), 0.0);
  CHECK_EQ(cost_without_plan(ss, r, true), kImpossible);
  CHECK_EQ(cost_without_plan(s, ss, true), kImpossible);
  CHECK(!cost_without_plan(s, r, true));
}

TEST(a_bound_never_exceeds_the_price) {
  const Mesh mesh = ring_mesh(std::vector<std::int64_t>{3, 2, 3}, 6);
  const std::vector<Placement> cells{replicate(), shard(0), shard(1), partial(kSum)};
  const auto each = [&](auto body) {
    for (const Placement a : cells)
      for (const Placement b : cells)
        for (const Placement c : cells) body(layout_of({a, b, c}));
  };
  each([&](const Layout& src) {
    const auto shards = num_shards(src, mesh);
    each([&](const Layout& dst) {
      double last = 0.0;
      for (int first_known = 3; first_known >= 0; --first_known) {
        const double bound =
            greedy_cost(src, dst.placements.data(), first_known, mesh, 1e-5 / 3, shards, true);
        CHECK(bound >= last);
        last = bound;
      }
    });
  });
}
