// A relaxation of the world of layouts, in which prices are lower bounds of prices here.
//
// In it a mesh dim is replicated, partial, sharded as one given layout has it (it is in the part of
// a shard order that both begin with: "good"), or sharded otherwise ("bad"); any shard can be
// reached or left at any time, and every size divides. Each move of the real world is a move there
// of no more bytes, and is priced as the cheapest of so many and more: so it costs no more. There
// are 4^n such states for n mesh dims, few enough to know them all.
#pragma once

#include <array>
#include <queue>
#include <vector>

#include "optimal/plan_space.h"

namespace shardprop {

// Two bits per active mesh dim.
using RelaxedState = std::uint32_t;
enum Simple : RelaxedState { kHeld, kPending, kGood, kBad };  // kHeld: replicated

// The least prices to, or from, one state of all.
using BoundTable = std::vector<Price>;

// Which partials may be brought in on a mesh dim: those that are divided, those that are not.
enum BringsIn : std::uint8_t { kNothing = 0, kSums = 1, kOthers = 2 };

class Relaxation {
 public:
  // `space` must outlive the world.
  Relaxation(const PlanSpace& space, const std::array<std::uint8_t, kMaxMeshDims>& brings_in);

  [[nodiscard]] BoundTable prices_to(RelaxedState target) { return prices(target, true); }
  [[nodiscard]] BoundTable prices_from(RelaxedState source) { return prices(source, false); }

  // The bytes of the whole tensor: what a table depends on beside the cost model and its own state.
  [[nodiscard]] static double bytes_of(const TensorInfo& info);

  [[nodiscard]] static RelaxedState at(RelaxedState state, int active) {
    return state >> (2 * active) & 3u;
  }
  [[nodiscard]] static RelaxedState with(RelaxedState state, int active, RelaxedState simple) {
    return (state & ~(3u << (2 * active))) | simple << (2 * active);
  }

 private:
  enum class Pattern : std::uint8_t { kHeld, kPending, kSharded };
  struct Entry {
    Price price;
    RelaxedState state;
    bool operator>(const Entry& other) const { return price > other.price; }
  };

  BoundTable prices(RelaxedState start, bool backward);
  void collectives(std::size_t group);
  void collective(std::size_t group, Collective kind, Pattern from, Pattern to);
  void permute(std::size_t group);
  void each_arrangement(std::size_t group, int active, RelaxedState far, Price price);
  void local_steps(int active);
  void local(int active, Pattern from, Pattern to, int kernels, double per_byte_before,
             double per_byte_after);
  void offer(RelaxedState far, Price price);

  [[nodiscard]] bool is(RelaxedState state, unsigned mask, Pattern pattern) const;
  void each(unsigned mask, Pattern pattern, auto visit) const;
  [[nodiscard]] double bytes(RelaxedState state) const;

  const PlanSpace& space_;
  std::array<std::uint8_t, kMaxMeshDims> brings_in_;
  int active_;
  std::vector<unsigned> masks_;   // per group of the cost model
  std::vector<double> bytes_of_;  // that a rank holds, by the mesh dims that are sharded, as bits

  // While a table is made.
  bool backward_ = false;
  BoundTable table_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  RelaxedState near_ = 0;  // whose neighbours are looked at
  Price price_ = 0;
};

}  // namespace shardprop
