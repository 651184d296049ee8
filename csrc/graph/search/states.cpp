#include "graph/search/states.h"

#include <algorithm>
#include <numeric>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

// A number per assignment of some of a scope's variables. The caller has seen to it that the
// assignments of any list can be counted in 64 bits.
class Key {
 public:
  Key(const std::vector<int>& scope, const std::vector<int>& variables, const Limits& limits)
      : width_(scope.size()) {
    std::uint64_t stride = 1;
    for (const int v : variables) {
      const auto place = std::find(scope.begin(), scope.end(), v) - scope.begin();
      parts_.emplace_back(static_cast<std::size_t>(place), stride);
      stride *= limits.sizes[at(v)];
    }
  }
  [[nodiscard]] std::uint64_t of(const States& states, std::size_t i) const {
    const std::int32_t* labels = states.labels.data() + i * width_;
    std::uint64_t key = 0;
    for (const auto& [place, stride] : parts_) key += stride * at(labels[place]);
    return key;
  }

 private:
  std::size_t width_;
  std::vector<std::pair<std::size_t, std::uint64_t>> parts_;
};

// States of a list by key, and within it by slack.
struct Index {
  std::vector<std::pair<std::uint64_t, std::size_t>> entries;

  Index(const States& states, const Key& key) {
    entries.reserve(states.size());
    for (std::size_t i = 0; i < states.size(); ++i) entries.emplace_back(key.of(states, i), i);
    std::sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      if (states.slacks[a.second] != states.slacks[b.second]) {
        return states.slacks[a.second] < states.slacks[b.second];
      }
      return a.second < b.second;
    });
  }
  [[nodiscard]] std::size_t begin(std::uint64_t key) const {
    const auto it =
        std::lower_bound(entries.begin(), entries.end(), std::pair(key, std::size_t{0}));
    return static_cast<std::size_t>(it - entries.begin());
  }
};

// Adds the join of states i and j unless it needs too much of something.
void append(const States& now, std::size_t i, const States& other, std::size_t j,
            const std::vector<std::size_t>& fresh, int source, const Limits& limits, States& out) {
  const std::size_t sides = limits.sides(), begin = out.amounts.size();
  for (std::size_t s = 0; s < sides; ++s) {
    double amount = now.amounts[i * sides + s];
    if (!other.amounts.empty()) amount += other.amounts[j * sides + s];
    if (amount > limits.budgets[s]) {
      out.amounts.resize(begin);
      return;
    }
    out.amounts.push_back(amount);
  }
  const std::int32_t* labels = now.labels.data() + i * now.scope.size();
  out.labels.insert(out.labels.end(), labels, labels + now.scope.size());
  for (const std::size_t place : fresh) {
    out.labels.push_back(other.labels[j * other.scope.size() + place]);
  }
  out.slacks.push_back(now.slacks[i] + other.slacks[j]);
  const std::size_t* origins = now.origins.data() + i * now.sources.size();
  out.origins.insert(out.origins.end(), origins, origins + now.sources.size());
  if (source >= 0) out.origins.push_back(j);
}

void select_states(States& states, const std::vector<std::size_t>& kept, std::size_t sides) {
  States out{states.scope, {}, {}, {}, states.sources, {}};
  const auto copy = [](const auto& from, std::size_t i, std::size_t width, auto& to) {
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(i * width);
    to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(width));
  };
  out.slacks.reserve(kept.size());
  for (const std::size_t i : kept) {
    out.slacks.push_back(states.slacks[i]);
    copy(states.labels, i, states.scope.size(), out.labels);
    copy(states.amounts, i, sides, out.amounts);
    copy(states.origins, i, states.sources.size(), out.origins);
  }
  states = std::move(out);
}

}  // namespace

double Limits::price(const States& states, std::size_t i) const {
  double price = states.slacks[i];
  for (std::size_t s = 0; s < sides(); ++s) {
    price -= multipliers[s] * states.amounts[i * sides() + s];
  }
  return price;
}

Joined join(States& now, const States& other, int source, const Limits& limits, Meter& meter) {
  std::vector<int> shared;
  std::vector<std::size_t> fresh;
  States out;
  out.scope = now.scope;
  for (std::size_t p = 0; p < other.scope.size(); ++p) {
    const int v = other.scope[p];
    if (std::find(now.scope.begin(), now.scope.end(), v) != now.scope.end()) {
      shared.push_back(v);
    } else {
      fresh.push_back(p);
      out.scope.push_back(v);
    }
  }
  out.sources = now.sources;
  if (source >= 0) out.sources.push_back(source);
  const Key left(now.scope, shared, limits);
  const Index index(other, Key(other.scope, shared, limits));
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::uint64_t key = left.of(now, i);
    std::size_t looked_at = 16;
    for (std::size_t e = index.begin(key);
         e < index.entries.size() && index.entries[e].first == key; ++e, ++looked_at) {
      const std::size_t j = index.entries[e].second;
      if (now.slacks[i] + other.slacks[j] >= limits.gap) break;
      append(now, i, other, j, fresh, source, limits, out);
    }
    if (out.size() > limits.most) return Joined::kTooMany;
    if (meter.stop_after(16 * looked_at)) return Joined::kStopped;
  }
  now = std::move(out);
  return Joined::kDone;
}

Joined leave_best(States& states, const std::vector<int>& variables, const Limits& limits,
                  Meter& meter) {
  const Key key(states.scope, variables, limits);
  std::size_t left = limits.most_compared;
  const std::size_t sides = limits.sides();
  struct Entry {
    std::uint64_t key;
    double price;
    std::size_t state;
  };
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < states.size(); ++i) {
    entries.push_back({key.of(states, i), limits.price(states, i), i});
  }
  const auto amounts = [&](std::size_t i) { return states.amounts.data() + i * sides; };
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.key != b.key) return a.key < b.key;
    if (a.price != b.price) return a.price < b.price;
    for (std::size_t s = 0; s < sides; ++s) {
      const double x = amounts(a.state)[s], y = amounts(b.state)[s];
      if (x != y) return x < y;
    }
    return a.state < b.state;
  });
  std::vector<std::size_t> kept;
  std::size_t first = 0;  // of those kept, with the key at hand
  for (std::size_t e = 0; e < entries.size(); ++e) {
    if (e > 0 && entries[e].key != entries[e - 1].key) first = kept.size();
    const auto beaten_by = [&](std::size_t i) {
      return std::equal(amounts(i), amounts(i) + sides, amounts(entries[e].state),
                        [](double x, double y) { return x <= y; });
    };
    // With one side the last one kept has the least amount of all so far.
    const std::size_t from = sides <= 1 && kept.size() > first ? kept.size() - 1 : first;
    bool beaten = false;
    for (std::size_t k = from; k < kept.size() && !beaten; ++k) beaten = beaten_by(kept[k]);
    if (!beaten) kept.push_back(entries[e].state);
    const std::size_t compared = kept.size() - from;
    if (compared > left) return Joined::kTooMany;
    left -= compared;
    if (meter.stop_after(16 + compared)) return Joined::kStopped;
  }
  select_states(states, kept, sides);
  return Joined::kDone;
}

}  // namespace shardprop::graph
