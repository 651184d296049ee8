#include <string>

#include "check.h"
#include "lru_cache.h"

using namespace shardprop;

TEST(the_least_recently_used_entry_goes_first) {
  LruCache<std::string, int> cache(2);
  cache.insert("a", 1, 10);
  cache.insert("b", 2, 20);
  CHECK(cache.find("a") != nullptr);
  cache.insert("c", 3, 30);
  CHECK(cache.find("b") == nullptr);
  CHECK_EQ(*cache.find("a"), 1);
  CHECK_EQ(*cache.find("c"), 3);
  CHECK_EQ(cache.bytes(), 40u);
  CHECK_EQ(cache.size(), 2u);
  CHECK_EQ(cache.stats().hits, 3u);
  CHECK_EQ(cache.stats().misses, 1u);
  CHECK_EQ(cache.stats().evictions, 1u);
}

TEST(replacing_counts_its_bytes_once) {
  LruCache<std::string, int> cache(2);
  cache.insert("a", 1, 10);
  cache.insert("a", 2, 15);
  CHECK_EQ(*cache.find("a"), 2);
  CHECK_EQ(cache.bytes(), 15u);
  cache.clear();
  CHECK_EQ(cache.bytes(), 0u);
  CHECK_EQ(cache.size(), 0u);
}

TEST(a_cache_of_nothing_is_refused) {
  CHECK_THROWS((LruCache<int, int>(0)), std::invalid_argument);
}
