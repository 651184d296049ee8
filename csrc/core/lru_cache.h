// A bounded cache that drops what was used longest ago. Knows nothing of what it holds; whoever
// puts a value in says how many bytes it takes. Not synchronised: the owner holds the lock, if any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace shardprop {

struct CacheStats {
  std::uint64_t hits = 0, misses = 0, evictions = 0;
};

template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0)
      throw std::invalid_argument("Expected a cache of at least one entry, got 0.");
  }

  // The value of `key`, now the most recently used; nullptr if it is not there.
  [[nodiscard]] const Value* find(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) {
      ++stats_.misses;
      return nullptr;
    }
    ++stats_.hits;
    order_.splice(order_.begin(), order_, found->second);
    return &found->second->value;
  }

  // Puts or replaces a value, dropping the least recently used one if there are too many.
  void insert(Key key, Value value, std::size_t bytes) {
    erase(key);
    if (index_.size() == capacity_) {
      ++stats_.evictions;
      erase(Key(order_.back().key));
    }
    bytes_ += bytes;
    order_.push_front({key, std::move(value), bytes});
    index_.emplace(std::move(key), order_.begin());
  }

  void clear() {
    index_.clear();
    order_.clear();
    bytes_ = 0;
  }

  [[nodiscard]] std::size_t size() const { return index_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] CacheStats stats() const { return stats_; }

 private:
  struct Entry {
    Key key;
    Value value;
    std::size_t bytes;
  };

  void erase(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return;
    bytes_ -= found->second->bytes;
    order_.erase(found->second);
    index_.erase(found);
  }

  std::size_t capacity_, bytes_ = 0;
  std::list<Entry> order_;
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> index_;
  CacheStats stats_;
};

}  // namespace shardprop
