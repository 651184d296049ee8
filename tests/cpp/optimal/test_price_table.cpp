#include "check.h"
#include "optimal/price_table.h"
#include "random_layouts.h"

using namespace shardprop;
using testing::random_layout;
using testing::random_model;

namespace {

Layout strided_layout(std::mt19937_64& random, int mesh_dims, int tensor_dims) {
  std::vector<Placement> placements;
  for (int m = 0; m < mesh_dims; ++m) {
    const int dim = static_cast<int>(random() % static_cast<unsigned>(tensor_dims));
    placements.push_back(random() % 2 ? strided_shard(dim, 2 + random() % 2) : shard(dim));
  }
  return unordered_layout(placements);
}

}  // namespace

TEST(price_table_says_of_each_pair_what_its_plan_costs) {
  std::mt19937_64 random(7);
  const std::vector<std::vector<std::int64_t>> meshes{{4}, {2, 4}, {1, 4}, {3, 2}, {2, 4, 2}};
  const std::vector<std::vector<std::int64_t>> shapes{{64, 64}, {7, 12}, {6, 1, 20}, {96}};
  std::size_t reached = 0, pairs = 0;
  for (int round = 0; round < 60; ++round) {
    const auto& sizes = meshes[random() % meshes.size()];
    const TensorInfo info{shapes[random() % shapes.size()], 4, 0};
    const CostModel model = random_model(random, sizes, random() % 2 ? 60 : 0);
    const int mesh_dims = static_cast<int>(sizes.size());
    const int dims = static_cast<int>(info.shape.size());
    const double limit = random() % 3 ? 0.0 : 2000.0;
    std::vector<Layout> sources, targets;
    for (int i = 0; i < 5; ++i) {
      sources.push_back(random_layout(random, mesh_dims, dims, random() % 2 ? kSum : kMax));
      targets.push_back(random_layout(random, mesh_dims, dims, kSum));
      targets.push_back(strided_layout(random, mesh_dims, dims));
    }
    sources.push_back(sources.front());
    sources.push_back(strided_layout(random, mesh_dims, dims));
    const auto table = price_table(model, info, sources, targets, limit, nullptr);
    CHECK_EQ(table.size(), sources.size() * targets.size());
    for (std::size_t t = 0; t < targets.size(); ++t) {
      for (std::size_t s = 0; s < sources.size(); ++s) {
        const Price price = table[t * sources.size() + s];
        CHECK_EQ(price, exact_plan(model, info, sources[s], targets[t], limit, nullptr).price);
        reached += price < kNoPrice;
        ++pairs;
      }
    }
  }
  CHECK(reached > pairs / 2 && reached < pairs);
}
