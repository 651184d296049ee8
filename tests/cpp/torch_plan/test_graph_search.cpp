#include "check.h"
#include "layout_of.h"
#include "torch_plan/graph_search.h"
#include "torch_plan/redistribute.h"
#include "torch_plan/transition.h"

using namespace shardprop;

namespace {

const Mesh kMesh = ring_mesh(std::vector<std::int64_t>{2, 4}, 8);
constexpr double kBytes = 64.0 * 1024 * 1024;

std::vector<std::string> texts(const std::vector<Layout>& path) {
  std::vector<std::string> all;
  for (const Layout& layout : path) all.push_back(to_string(layout));
  return all;
}

}  // namespace

TEST(a_misaligned_shard_is_moved_to_a_free_tensor_dim) {
  // (S0, S0) -> (R, S0): moving the inner cut aside beats gathering both.
  GraphSearch search(kMesh, 2, kBytes, layout_of({shard(0), shard(0)}), {});
  CHECK_EQ(texts(search.path_to(layout_of({replicate(), shard(0)}))),
           (std::vector<std::string>{"S(0) S(0)", "S(0) S(1)", "R S(1)", "R S(0)"}));
}

TEST(one_search_answers_many_goals) {
  const std::vector<Placement> cells{replicate(), shard(0), shard(1), partial(kSum)};
  const GraphSearch::Moves moves{{partial(kSum)}, {}, 0};
  GraphSearch resumed(kMesh, 2, kBytes, layout_of({partial(kSum), shard(0)}), moves);
  for (const Placement a : cells) {
    for (const Placement b : cells) {
      const Layout goal = layout_of({a, b});
      GraphSearch fresh(kMesh, 2, kBytes, layout_of({partial(kSum), shard(0)}), moves);
      CHECK_EQ(texts(resumed.path_to(goal)), texts(fresh.path_to(goal)));
    }
  }
}

TEST(a_search_for_one_goal_takes_the_same_path) {
  // Every pair of layouts over these cells, with the default order and with one shard order more.
  const std::vector<Placement> cells{replicate(), shard(0), shard(1), partial(kSum),
                                     strided_shard(0, 2)};
  std::vector<Layout> layouts;
  for (const Placement a : cells) {
    for (const Placement b : cells) {
      layouts.push_back(layout_of({a, b}));
      if (!(a == b) || !a.is_shard()) continue;
      layouts.push_back(layouts.back());
      layouts.back().position = {1, 0};
    }
  }
  for (const double bytes : {1.0, 4096.0, kBytes}) {
    for (const Layout& src : layouts) {
      for (const Layout& goal : layouts) {
        for (const bool zero_fill : {false, true}) {
          GraphSearch::Moves moves{{}, {strided_shard(0, 2)}, 0};
          for (int m = 0; m < goal.ndim; ++m) {
            if (!goal.placements[m].is_partial()) continue;
            moves.partials = {partial(kSum)};
            if (zero_fill) moves.zero_fill |= static_cast<std::uint8_t>(1u << m);
          }
          GraphSearch all(kMesh, 2, bytes, src, moves);
          const auto path = GraphSearch::path(kMesh, 2, bytes, src, goal, moves);
          CHECK_EQ(texts(path), texts(all.path_to(goal)));
          CHECK_EQ(path.empty() || path.back() == goal, true);
        }
      }
    }
  }
}

TEST(an_opaque_placement_is_never_reached) {
  GraphSearch search(kMesh, 2, kBytes, layout_of({replicate(), replicate()}), {});
  CHECK(search.path_to(layout_of({opaque(1), replicate()})).empty());
}

TEST(zero_fill_is_taken_only_where_the_goal_asks_for_it) {
  const Layout goal = layout_of({partial(kSum), replicate()});
  GraphSearch without(kMesh, 1, kBytes, layout_of({shard(0), replicate()}),
                      {{partial(kSum)}, {}, 0});
  CHECK_EQ(without.path_to(goal).size(), 3u);
  GraphSearch with(kMesh, 1, kBytes, layout_of({shard(0), replicate()}), {{partial(kSum)}, {}, 1});
  CHECK_EQ(with.path_to(goal).size(), 2u);
}

TEST(more_placements_than_the_alphabet_are_refused) {
  GraphSearch::Moves moves;
  for (std::uint32_t factor = 2; factor < 40; ++factor)
    moves.strided.push_back(strided_shard(0, factor));
  CHECK_THROWS(GraphSearch(kMesh, 2, kBytes, layout_of({shard(0), shard(0)}), moves),
               TooManyPlacements);
}
