#include "graph/presolve/compress.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

constexpr std::int32_t kUnused = -2, kUsed = -1;
constexpr std::size_t kMaxJoinedEntries = std::size_t{1} << 24;  // 256 MiB with the transposes

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value ^ (value >> 29)) * 0x9E3779B97F4A7C15u + (hash >> 31);
}

// Writes to `to[i]`, for each i in `used`, the number of the first item equal to item i; returns
// one item per number. `hashes` is by item, `equal(i, j)` decides.
template <typename Equal>
std::vector<int> unify(const std::vector<int>& used, const std::vector<std::uint64_t>& hashes,
                       std::vector<std::int32_t>& to, Equal equal) {
  std::unordered_map<std::uint64_t, std::vector<int>> numbers;
  std::vector<int> items;
  for (std::size_t k = 0; k < used.size(); ++k) {
    const int i = used[k];
    auto& same_hash = numbers[hashes[k]];
    const auto found = std::find_if(same_hash.begin(), same_hash.end(),
                                    [&](int number) { return equal(items[at(number)], i); });
    if (found != same_hash.end()) {
      to[at(i)] = *found;
      continue;
    }
    to[at(i)] = static_cast<std::int32_t>(items.size());
    same_hash.push_back(to[at(i)]);
    items.push_back(i);
  }
  return items;
}

std::vector<int> used_of(const std::vector<std::int32_t>& to) {
  std::vector<int> used;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] != kUnused) used.push_back(static_cast<int>(i));
  }
  return used;
}

// Adding 0.0 makes -0.0 hash as 0.0, to which it is equal.
std::uint64_t bits(double price) { return std::bit_cast<std::uint64_t>(price + 0.0); }

std::vector<double> transposed(const std::vector<double>& prices, int rows, int columns) {
  std::vector<double> out(prices.size());
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      out[at(c) * at(rows) + at(r)] = prices[at(r) * at(columns) + at(c)];
    }
  }
  return out;
}

// Numbers pairs (a[i], b[i]) in order of first appearance.
std::vector<std::pair<int, int>> number_pairs(const std::vector<std::int32_t>& a,
                                              const std::vector<std::int32_t>& b,
                                              std::vector<std::int32_t>& number) {
  std::map<std::pair<int, int>, int> seen;
  std::vector<std::pair<int, int>> pairs;
  number.resize(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto [it, fresh] = seen.try_emplace({a[i], b[i]}, static_cast<int>(pairs.size()));
    if (fresh) pairs.emplace_back(a[i], b[i]);
    number[i] = it->second;
  }
  return pairs;
}

}  // namespace

Usage::Usage(const Table& table, bool flipped)
    : table_(table),
      flipped_(flipped),
      row_to_(at(flipped ? table.columns : table.rows), kUnused),
      column_to_(at(flipped ? table.rows : table.columns), kUnused) {}

void Usage::use(const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& columns) {
  for (const int r : rows) row_to_[at(r)] = kUsed;
  for (const int c : columns) column_to_[at(c)] = kUsed;
}

// Works in the table's own direction, where rows lie contiguous.
Matrix Usage::compress() {
  auto& row_to = flipped_ ? column_to_ : row_to_;
  auto& column_to = flipped_ ? row_to_ : column_to_;
  const std::vector<int> rows = used_of(row_to), columns = used_of(column_to);
  std::vector<std::uint64_t> hashes;
  for (const int r : rows) {
    std::uint64_t hash = 0;
    for (const int c : columns) hash = mix(hash, bits(table_.row(r)[c]));
    hashes.push_back(hash);
  }
  const auto own_rows = unify(rows, hashes, row_to, [&](int i, int j) {
    return std::all_of(columns.begin(), columns.end(),
                       [&](int c) { return table_.row(i)[c] == table_.row(j)[c]; });
  });
  hashes.assign(columns.size(), 0);
  for (const int r : own_rows) {
    for (std::size_t k = 0; k < columns.size(); ++k) {
      hashes[k] = mix(hashes[k], bits(table_.row(r)[columns[k]]));
    }
  }
  const auto own_columns = unify(columns, hashes, column_to, [&](int i, int j) {
    return std::all_of(own_rows.begin(), own_rows.end(),
                       [&](int r) { return table_.row(r)[i] == table_.row(r)[j]; });
  });
  Matrix matrix{static_cast<int>(own_rows.size()), static_cast<int>(own_columns.size()), {}, {}};
  matrix.prices.reserve(own_rows.size() * own_columns.size());
  for (const int r : own_rows) {
    for (const int c : own_columns) matrix.prices.push_back(table_.row(r)[c]);
  }
  matrix.transposed = transposed(matrix.prices, matrix.rows, matrix.columns);
  if (flipped_) {
    std::swap(matrix.rows, matrix.columns);
    std::swap(matrix.prices, matrix.transposed);
  }
  return matrix;
}

void Usage::translate(std::vector<std::int32_t>& rows, std::vector<std::int32_t>& columns) const {
  for (std::int32_t& r : rows) r = row_to_[at(r)];
  for (std::int32_t& c : columns) c = column_to_[at(c)];
}

bool MatrixJoiner::join(std::vector<Matrix>& matrices, Link& link, const Link& other) {
  std::vector<std::int32_t> row_number, column_number;
  auto rows = number_pairs(link.rows, other.rows, row_number);
  auto columns = number_pairs(link.columns, other.columns, column_number);
  auto& same = made_[{link.matrix, other.matrix}];
  auto found = std::find_if(same.begin(), same.end(), [&](const Joined& joined) {
    return joined.rows == rows && joined.columns == columns;
  });
  if (found == same.end()) {
    const std::size_t size = rows.size() * columns.size();
    if (entries_ + size > kMaxJoinedEntries) return false;
    entries_ += size;
    Matrix sum{static_cast<int>(rows.size()), static_cast<int>(columns.size()), {}, {}};
    sum.prices.reserve(size);
    for (const auto& [r1, r2] : rows) {
      for (const auto& [c1, c2] : columns) {
        sum.prices.push_back(matrices[at(link.matrix)].at(r1, c1) +
                             matrices[at(other.matrix)].at(r2, c2));
      }
    }
    sum.transposed = transposed(sum.prices, sum.rows, sum.columns);
    same.push_back({static_cast<int>(matrices.size()), std::move(rows), std::move(columns)});
    matrices.push_back(std::move(sum));
    found = same.end() - 1;
  }
  link.matrix = found->matrix;
  link.rows = std::move(row_number);
  link.columns = std::move(column_number);
  return true;
}

std::vector<int> undominated(const double* unary, int labels,
                             const std::vector<std::vector<std::int32_t>*>& looks,
                             const std::vector<std::vector<double>*>& amounts) {
  std::vector<std::pair<std::uint64_t, int>> hashed;
  for (int l = 0; l < labels; ++l) {
    std::uint64_t hash = 0;
    for (const auto* look : looks) hash = mix(hash, static_cast<std::uint32_t>((*look)[at(l)]));
    for (const auto* amount : amounts) hash = mix(hash, bits((*amount)[at(l)]));
    hashed.emplace_back(hash, l);
  }
  std::sort(hashed.begin(), hashed.end());
  const auto alike = [&](int k, int l) {
    return std::all_of(looks.begin(), looks.end(),
                       [&](auto* look) { return (*look)[at(k)] == (*look)[at(l)]; }) &&
           std::all_of(amounts.begin(), amounts.end(),
                       [&](auto* amount) { return (*amount)[at(k)] == (*amount)[at(l)]; });
  };
  std::vector<int> kept;
  std::size_t run = 0;  // where in `kept` the labels of the same hash begin
  for (std::size_t i = 0; i < hashed.size(); ++i) {
    if (i > 0 && hashed[i].first != hashed[i - 1].first) run = kept.size();
    const int l = hashed[i].second;
    const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(run);
    const auto found = std::find_if(begin, kept.end(), [&](int k) { return alike(k, l); });
    if (found == kept.end()) {
      kept.push_back(l);
    } else if (unary[l] < unary[*found]) {
      *found = l;
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace shardprop::graph
