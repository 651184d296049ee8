#include "search/strategy_table.h"

#include <algorithm>
#include <limits>
#include <set>

#include "layout/flat_map.h"
#include "search/shardable.h"

namespace shardprop {
namespace {

bool keeps_what_it_writes(const RowTable& table, int row, const std::vector<WrittenInto>& written) {
  return std::all_of(written.begin(), written.end(), [&](const WrittenInto& pair) {
    const Placement output = table.at(row, pair.output);
    return output.kind == Kind::kAbsent || output == table.at(row, table.outputs + pair.operand);
  });
}

// Rows that may be chosen. Where rows ask nothing of sizes, two that are equal lead to the same
// strategies, so the first will do.
std::vector<std::uint16_t> candidates_of(const Problem& problem, const StrategyTerms& terms) {
  const RowTable& table = problem.table;
  std::vector<std::uint16_t> rows;
  for (int r = 0; r < table.rows(); ++r) {
    if (!keeps_what_it_writes(table, r, terms.written)) continue;
    const bool again =
        table.constraints.empty() && std::any_of(rows.begin(), rows.end(), [&](int other) {
          const auto a = table.row(r), b = table.row(other);
          return std::equal(a.begin(), a.end(), b.begin());
        });
    if (!again) rows.push_back(static_cast<std::uint16_t>(r));
  }
  return rows;
}

// Can a shard of some strategy be too small? Asked of all mesh dims at once, which is more than any
// strategy cuts.
bool may_be_too_small(const Problem& problem) {
  std::int64_t ranks = 1;
  for (int m = 0; m < problem.mesh.ndim; ++m) ranks *= problem.mesh.size[m];
  const RowTable& table = problem.table;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const auto& shape = problem.operands[i].info.shape;
    for (int r = 0; r < table.rows(); ++r) {
      const Placement p = table.at(r, table.outputs + static_cast<int>(i));
      if (p.is_shard_like() && shape[p.dim] < ranks * (p.is_strided() ? p.value : 1)) return true;
    }
  }
  return false;
}

// The problem with operands that nothing is too small for.
Problem without_sizes(Problem problem) {
  for (Operand& operand : problem.operands) {
    for (std::int64_t& size : operand.info.shape) size = std::numeric_limits<std::int64_t>::max();
  }
  return problem;
}

// Turns strategies into numbers.
class Table {
 public:
  explicit Table(const Problem& problem) : problem_(problem) {
    std::vector<Placement> distinct;
    for (const Placement cell : problem.table.cells) {
      const auto known = std::find(distinct.begin(), distinct.end(), cell);
      codes_.push_back(static_cast<std::uint64_t>(known - distinct.begin()));
      if (known == distinct.end()) distinct.push_back(cell);
    }
    table.too_large = distinct.size() > 0xff;  // a byte each
  }

  void add(const Rows& rows) {
    const int width = problem_.table.width();
    const std::size_t start = table.layouts.size();
    for (int p = 0; p < width; ++p) table.layouts.push_back(number(rows, p));
    if (!problem_.table.constraints.empty() && !is_new(start)) {
      table.layouts.resize(start);
      return;
    }
    ++table.strategies;
  }

  StrategyTable table;

 private:
  std::int32_t number(const Rows& rows, int position) {
    const RowTable& cells = problem_.table;
    std::uint64_t key = 0;
    for (int m = 0; m < problem_.mesh.ndim; ++m) {
      // Of an output that the call leaves out, torch 2.13 has a placement in some rows.
      if (cells.at(rows[m], position).kind == Kind::kAbsent) return StrategyTable::kAbsent;
      key |= codes_[rows[m] * cells.width() + position] << (8 * m);
    }
    std::uint32_t found = numbers_.find(key);
    if (found == FlatMap::kNone) {
      found = static_cast<std::uint32_t>(table.examples.size());
      numbers_.insert(key, found);
      table.examples.push_back({rows, position});
    }
    return static_cast<std::int32_t>(found);
  }

  bool is_new(std::size_t start) {
    return seen_
        .insert({table.layouts.begin() + static_cast<std::ptrdiff_t>(start), table.layouts.end()})
        .second;
  }

  const Problem& problem_;
  std::vector<std::uint64_t> codes_;  // per cell of the rows: a number of its placement
  FlatMap numbers_;
  std::set<std::vector<std::int32_t>> seen_;
};

bool one_of(const std::vector<Layout>& layouts, const Problem& problem, int operand,
            const Rows& rows) {
  return std::any_of(layouts.begin(), layouts.end(), [&](const Layout& layout) {
    for (int m = 0; m < problem.mesh.ndim; ++m) {
      if (!(wanted_placement(problem, operand, m, rows) == layout.placements[m])) return false;
    }
    return true;
  });
}

// torch's filter where it lets operands through that are where they are wanted.
bool large_enough_or_there(const Problem& problem, const StrategyTerms& terms, const Rows& rows) {
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const int operand = static_cast<int>(i);
    const auto& shape = problem.operands[i].info.shape;
    const auto holds = [&](std::size_t dim, std::int64_t pieces) { return shape[dim] >= pieces; };
    if (!is_shardable(problem, operand, rows, holds) &&
        !one_of(terms.producers[i], problem, operand, rows)) {
      return false;
    }
  }
  return true;
}

}  // namespace

StrategyTable strategy_table(const Problem& problem, const StrategyTerms& terms) {
  const std::vector<std::uint16_t> rows = candidates_of(problem, terms);
  Candidates candidates;
  for (int m = 0; m < problem.mesh.ndim; ++m) candidates[m] = rows;
  // Rows that ask something of sizes need them.
  const bool lenient =
      problem.allow_uneven && problem.table.constraints.empty() && may_be_too_small(problem);
  const Problem walked = lenient ? without_sizes(problem) : problem;
  Table made(problem);
  if (made.table.too_large) return std::move(made.table);
  // Whether something was found is told by the number of strategies.
  static_cast<void>(for_each_valid(walked, candidates, [&](const Rows& chosen) {
    if (lenient && !large_enough_or_there(problem, terms, chosen)) return Visit::kRejected;
    if (problem.accepts && !problem.accepts(chosen)) return Visit::kRejected;
    made.table.too_large = made.table.strategies == kMaxStrategies;
    if (made.table.too_large) return Visit::kStop;
    made.add(chosen);
    return Visit::kTaken;
  }));
  return std::move(made.table);
}

}  // namespace shardprop
