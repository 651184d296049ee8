#include "check.h"
#include "layout/set_order.h"

using namespace shardprop;

// Orders below were printed by CPython 3.11 for sets of ints (whose hash is the int itself).
TEST(small_sets_iterate_by_their_low_bits) {
  PySetOrder set;
  for (const std::uint64_t hash : {5u, 1u, 3u}) set.insert(hash);
  CHECK_EQ(set.order(), (std::vector<int>{1, 2, 0}));  // {1, 3, 5}
}

TEST(a_collision_goes_where_cpython_puts_it) {
  PySetOrder set;
  for (const std::uint64_t hash : {0u, 8u, 16u}) set.insert(hash);
  CHECK_EQ(set.order(), (std::vector<int>{0, 1, 2}));  // list({0, 8, 16}) == [0, 8, 16]
}

TEST(the_fifth_element_grows_the_table) {
  PySetOrder set;
  for (const std::uint64_t hash : {40u, 8u, 16u, 24u, 32u}) set.insert(hash);
  // Table of 32 slots now: 32 falls into slot 0; [32, 40, 8, 16, 24].
  CHECK_EQ(set.order(), (std::vector<int>{4, 0, 1, 2, 3}));
}

TEST(pair_hash_is_cpythons) {
  CHECK_EQ(hash_int_pair(0, 2), 7204814214171964562u);  // hash((0, 2)), CPython 3.8 and later
}
