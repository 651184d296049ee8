// Permutations of whole shards between the ranks of one group: which layouts one gives from
// another.
#pragma once

#include <span>
#include <vector>

#include "optimal/plan_space.h"

namespace shardprop {

class Permutations {
 public:
  // `space` must outlive this.
  explicit Permutations(const PlanSpace& space) : space_(space) {}

  // The layouts that differ from `state` (`view` is what it looks like), only on the mesh dims of
  // `mask`, and give each rank of the group a block that some rank of it has: per tensor dim, the
  // other mesh dims that cut it stay where they are, and what lies between them cuts into as many
  // pieces as before. Only tensor dims that are cut evenly change. No mesh dim of `mask` may be
  // partial, opaque or a strided shard. Good until the next call.
  std::span<const State> from(State state, const PlanSpace::View& view, unsigned mask);

 private:
  // What of a tensor dim's cuts the group may cut anew, in as many pieces as now.
  struct Stretch {
    int dim;
    int others;  // of the other cuts, how many come before it
    std::int64_t pieces;
    PlanSpace::Cuts filled;
  };

  void find_stretches(int dim);
  void fill(std::size_t index, std::int64_t pieces);
  [[nodiscard]] State filled() const;

  const PlanSpace& space_;
  const PlanSpace::View* view_ = nullptr;
  unsigned group_ = 0;              // mesh dims that may change
  unsigned free_ = 0;               // those of them that cut nothing yet
  State before_ = 0, emptied_ = 0;  // the state; and without the cuts of the group
  std::vector<Stretch> stretches_;
  std::vector<State> found_;
};

}  // namespace shardprop
