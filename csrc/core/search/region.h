// Where a decision holds: the sizes of its operands for which `decide` chooses the same strategy,
// all else (rows, layouts, mesh, dtypes, numbers of tensor dims, options) being equal.
//
// A size enters a decision in two ways. torch compares it with a number of pieces; and it enters
// the bytes of its operand, over which every price is a line. So a region is an interval per size
// in which the chosen strategy can be cut and no better one becomes so, and the lines of the few
// strategies that other bytes could make cheaper: `contains` compares prices at the bytes it is
// given. Strategies that are level with the chosen one as it is (operands that could each be
// gathered for the same price) are compared by torch's own arithmetic where they are level.
//
// The region is exact in one direction: within it, `decide` chooses these rows. It may miss sizes
// for which `decide` would choose them all the same: where prices agree to kNear, where a strategy
// that does not fit would be cheaper, at terabytes.
//
// Worked example: x [tokens, 1024] and w [1024, 1024] on 8 ranks, each sharded, one to be gathered.
// At 64 tokens that is x. The alternative is to gather w, with the same latency and a share of w's
// bytes instead of x's: their lines cross where both have the same size. The region is
// tokens < 1024. (At 4096 tokens w is gathered, and x must still be cut: there it is tokens > 1024,
// and tokens >= 8.)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/problem.h"

namespace shardprop {

class Region {
 public:
  // The sizes of all operands, one operand after another, as many as `tensor_dims` says.
  [[nodiscard]] bool contains(std::span<const std::int64_t> sizes) const;
  // Per operand.
  [[nodiscard]] std::span<const int> tensor_dims() const { return tensor_dims_; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class RegionFinder;

  struct Interval {
    std::int64_t least = 0, most = std::numeric_limits<std::int64_t>::max();
  };
  // Lines over the bytes of the operands whose price can change, row after row: latency, shares.
  struct Lines {
    std::vector<int> operands;
    std::vector<double> ours, alternatives;

    [[nodiscard]] double at(const double* line, std::span<const double> bytes) const;
  };
  // The price of one operand for one destination, to be computed as torch does.
  struct Price {
    int operand;
    std::array<Placement, kMaxMeshDims> wanted;
  };
  // Strategies that cost the same as the chosen one at the sizes of the decision, but for rounding.
  struct Level {
    Mesh mesh;
    bool compensated_sum = false;
    std::vector<Layout> held;           // per operand
    std::vector<Price> prices;          // the distinct ones of all strategies here; 0: free
    std::vector<std::uint16_t> priced;  // per strategy and operand its price; the chosen one first
    std::vector<double> lines;          // per alternative, as in `Lines`
    // Per alternative: is it taken where the prices are equal?
    std::vector<std::uint8_t> comes_first;

    [[nodiscard]] std::size_t alternatives() const { return comes_first.size(); }
  };

  [[nodiscard]] bool stays_first(double ours, std::span<const double> bytes) const;

  std::vector<int> tensor_dims_;
  std::vector<std::int64_t> itemsizes_;
  std::vector<Interval> intervals_;  // per operand and tensor dim
  Lines lines_;
  Level level_;
};

// The limits of what is worth a region. Operands are also bound by it in size: beyond, a latency
// could drown in the rounding of a price.
inline constexpr double kMaxRegionBytes = 0x1p43;
inline constexpr std::size_t kMaxRegionOperands = 64;
inline constexpr int kMaxRegionRows = 255;  // a placement of a column is one byte of a key
inline constexpr std::size_t kMaxLevelPrices = 128;
// Strategies looked at before a region is given up: that takes milliseconds.
inline constexpr std::size_t kMaxRegionStrategies = 20'000;

// The region of a decision that `decide` made; nullopt where there is none to be had: nothing was
// chosen, prices depend on the history of torch's graph planners, the rows ask something of sizes,
// the caller filters strategies or has sizes that are expressions, links are extraordinary, or
// there are too many strategies.
[[nodiscard]] std::optional<Region> region_of(const Problem& problem, const Decision& decision);

}  // namespace shardprop
