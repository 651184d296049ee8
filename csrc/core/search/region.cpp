#include "search/region.h"

#include "search/linear_price.h"
#include "torch_plan/greedy.h"
#include "torch_plan/transition.h"

namespace shardprop {
namespace {

template <class T>
std::size_t held_bytes(const std::vector<T>& vector) {
  return vector.capacity() * sizeof(T);
}

}  // namespace

double Region::Lines::at(const double* line, std::span<const double> bytes) const {
  double price = line[0];
  for (std::size_t i = 0; i < operands.size(); ++i) price += line[i + 1] * bytes[operands[i]];
  return price;
}

bool Region::contains(std::span<const std::int64_t> sizes) const {
  if (sizes.size() != intervals_.size()) return false;
  std::array<double, kMaxRegionOperands> bytes;
  std::size_t next = 0;
  for (std::size_t i = 0; i < tensor_dims_.size(); ++i) {
    bytes[i] = static_cast<double>(itemsizes_[i]);
    for (int d = 0; d < tensor_dims_[i]; ++d, ++next) {
      const std::int64_t size = sizes[next];
      if (size < intervals_[next].least || size > intervals_[next].most) return false;
      bytes[i] *= static_cast<double>(size);
      if (bytes[i] > kMaxRegionBytes) return false;
    }
  }
  if (lines_.ours.empty()) return true;  // of no price
  const std::span<const double> held(bytes.data(), tensor_dims_.size());
  const double ours = lines_.at(lines_.ours.data(), held);
  const std::size_t width = lines_.ours.size();
  for (std::size_t at = 0; at < lines_.alternatives.size(); at += width) {
    if (is_near(lines_.at(&lines_.alternatives[at], held), ours)) return false;
  }
  return stays_first(ours, held);
}

bool Region::stays_first(double ours, std::span<const double> bytes) const {
  const std::size_t width = lines_.ours.size(), operands = level_.held.size();
  std::array<double, kMaxLevelPrices> prices;
  std::array<double, kMaxRegionOperands> costs;
  bool priced = false;
  const auto price_of = [&](std::size_t strategy) {
    for (std::size_t i = 0; i < operands; ++i) {
      costs[i] = prices[level_.priced[strategy * operands + i]];
    }
    return python_sum({costs.data(), operands}, level_.compensated_sum);
  };
  double our_price = 0.0;
  for (std::size_t alternative = 0; alternative < level_.alternatives(); ++alternative) {
    const double theirs = lines_.at(&level_.lines[alternative * width], bytes);
    if (!is_near(theirs, ours)) continue;  // dearer
    if (!is_near(ours, theirs)) return false;
    if (!priced) {
      prices[0] = 0.0;
      for (std::size_t p = 1; p < level_.prices.size(); ++p) {
        const auto& [operand, wanted] = level_.prices[p];
        const Layout& src = level_.held[operand];
        const std::int64_t shards = num_shards(src, level_.mesh);
        prices[p] = greedy_cost(src, wanted.data(), 0, level_.mesh,
                                local_gigabytes(bytes[operand], shards), shards, true);
      }
      our_price = price_of(0);
      priced = true;
    }
    const double price = price_of(alternative + 1);
    if (price < our_price || (price == our_price && level_.comes_first[alternative])) return false;
  }
  return true;
}

std::size_t Region::bytes() const {
  return sizeof *this + held_bytes(tensor_dims_) + held_bytes(itemsizes_) + held_bytes(intervals_) +
         held_bytes(lines_.operands) + held_bytes(lines_.ours) + held_bytes(lines_.alternatives) +
         held_bytes(level_.held) + held_bytes(level_.prices) + held_bytes(level_.priced) +
         held_bytes(level_.lines) + held_bytes(level_.comes_first);
}

}  // namespace shardprop
