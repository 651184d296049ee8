#include <algorithm>

#include "check.h"
#include "layout/layout.h"
#include "layout_of.h"

using namespace shardprop;

namespace {

Mesh mesh_of(std::vector<std::int64_t> sizes) { return ring_mesh(sizes, 8); }

}  // namespace

TEST(default_order_is_left_to_right) {
  const Layout layout = layout_of({shard(0), shard(1), shard(0)});
  CHECK_EQ(layout.position[0], 0);
  CHECK_EQ(layout.position[1], 0);
  CHECK_EQ(layout.position[2], 1);
  CHECK(has_default_order(layout));
  CHECK_EQ(to_string(layout), "S(0) S(1) S(0)");
}

TEST(encode_gives_torchs_split_factors) {
  // The example of torch's _convert_shard_order_to_StridedShard: mesh (4, 3, 2), order (2, 0, 1).
  Layout layout = layout_of({shard(0), shard(0), shard(0)});
  layout.position = {1, 2, 0};
  const Layout encoded = encode_strided(layout, mesh_of({4, 3, 2}));
  CHECK_EQ(to_string(encoded), "SS(0, 2) SS(0, 2) S(0)");
  CHECK_EQ(decode_strided(encoded, mesh_of({4, 3, 2})), layout);
}

TEST(decode_inverts_encode_for_every_order) {
  std::array<std::uint8_t, 4> order{0, 1, 2, 3};
  do {
    Layout layout = layout_of({shard(1), shard(1), shard(1), shard(1)});
    std::copy(order.begin(), order.end(), layout.position.begin());
    const Mesh mesh = mesh_of({2, 3, 5, 7});
    CHECK_EQ(decode_strided(encode_strided(layout, mesh), mesh), layout);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(split_factors_of_no_order_are_not_decoded) {
  CHECK(!decode_strided(unordered_layout(std::vector{strided_shard(0, 5), shard(0)}),
                        mesh_of({2, 4})));
  CHECK(!decode_strided(unordered_layout(std::vector{strided_shard(0, 2)}), mesh_of({2})));
}

TEST(strided_shards_are_not_encoded_again) {
  CHECK_THROWS(encode_strided(layout_of({strided_shard(0, 2)}), mesh_of({2})),
               std::invalid_argument);
}

TEST(chunks_are_torchs) {
  CHECK_EQ(chunk_size(5, 4, 0), 2);
  CHECK_EQ(chunk_size(5, 4, 2), 1);
  CHECK_EQ(chunk_size(5, 4, 3), 0);
  CHECK_EQ(chunk_size(0, 4, 1), 0);
}

TEST(a_strided_shard_takes_its_piece_of_each_block) {
  for (std::int64_t size = 0; size < 40; ++size) {
    for (std::int64_t factor = 1; factor < 6; ++factor) {
      for (std::int64_t ranks = 1; ranks < 5; ++ranks) {
        std::int64_t total = 0;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const auto placement = strided_shard(0, static_cast<std::uint32_t>(factor));
          std::int64_t expected = 0;
          for (std::int64_t b = 0; b < factor; ++b) {
            expected += chunk_size(chunk_size(size, factor, b), ranks, rank);
          }
          CHECK_EQ(local_size(placement, size, ranks, rank), expected);
          total += expected;
        }
        CHECK_EQ(total, size);
      }
    }
  }
}

TEST(a_rank_with_nothing_of_a_dim_is_found) {
  const std::vector<std::vector<Placement>> layouts = {
      {shard(0), shard(0), replicate()},
      {shard(0), shard(1), shard(0)},
      {replicate(), shard(0), strided_shard(0, 2)},
      {strided_shard(0, 3), shard(0), shard(0)},
  };
  const Mesh mesh = mesh_of({2, 3, 2});
  for (const auto& placements : layouts) {
    for (std::int64_t size = 0; size < 40; ++size) {
      bool some_has_none = false;
      for (std::int64_t rank = 0; rank < 12; ++rank) {
        const std::array<std::int64_t, 3> at = {rank / 6, rank / 2 % 3, rank % 2};
        std::int64_t local = size;
        for (int m = 0; m < 3; ++m) {
          const bool cuts = placements[m].is_shard_like() && placements[m].dim == 0;
          if (cuts) local = local_size(placements[m], local, mesh.size[m], at[m]);
        }
        some_has_none |= local == 0;
      }
      CHECK_EQ(leaves_empty(layout_of(placements), mesh, 0, size), size > 0 && some_has_none);
    }
  }
}

TEST(sizes_that_may_leave_a_rank_nothing_are_found) {
  const Mesh mesh = mesh_of({2, 3});
  for (std::int64_t size = 0; size < 60; ++size) {
    bool expected = false;
    for (const auto& placements : std::vector<std::vector<Placement>>{
             {shard(0), replicate()}, {replicate(), shard(0)}, {shard(0), shard(0)}}) {
      const Layout layout = layout_of(placements);
      expected |= num_shards(layout, mesh) <= size && leaves_empty(layout, mesh, 0, size);
    }
    CHECK_EQ(may_leave_empty(mesh, size), expected);
  }
  CHECK(may_leave_empty(mesh_of({4}), 5));
  CHECK(!may_leave_empty(mesh_of({4}), 3));
}

TEST(meshes_of_no_size_are_refused) {
  CHECK_THROWS(mesh_of({}), std::invalid_argument);
  CHECK_THROWS(mesh_of({2, 0}), std::invalid_argument);
  CHECK_THROWS(mesh_of(std::vector<std::int64_t>(9, 1)), std::invalid_argument);
}
