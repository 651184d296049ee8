// THE table of moves of policy "optimal": every collective and local step that leads from one
// layout to another, over one mesh dim or over several that have a process group, with its price.
//
// docs/optimal.md has the table in words: conditions, bytes on the wire, local work.
#pragma once

#include <vector>

#include "optimal/permutations.h"

namespace shardprop {

enum class MoveKind : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kPermute,
  kChunk,
  kPartition,
  kZeroFill,
};
inline constexpr int kMoveKinds = 8;

struct PlannedMove {
  MoveKind kind = MoveKind::kChunk;
  std::uint8_t mask = 0;  // active mesh dims, as bits
  State to = 0;
  Price price = 0;
  double peak_bytes = 0.0;  // that a rank holds at once
  std::int64_t communication_ps = 0;
  double wire_bytes = 0.0;  // that a rank sends
};

class MoveTable {
 public:
  // `space` must outlive the table. Moves that hold more than `memory_limit` bytes do not exist; 0:
  // no limit.
  MoveTable(const PlanSpace& space, double memory_limit)
      : space_(space), permuted_(space), memory_limit_(memory_limit) {}

  // Makes `moves` those from `state`, in an order that depends on nothing else. `permuted`: the
  // mesh dims of a permutation that led there; to permute some of them again is never the cheapest.
  void from(State state, std::vector<PlannedMove>& moves, unsigned permuted = 0);

 private:
  // What a move does, before it has a price.
  struct Work {
    MoveKind kind;
    unsigned mask;
    double out_bytes;
    double wire = 0.0;
    int kernels = 0;
    double traffic = 0.0;
    double staging = 0.0;
  };

  void gathers();
  void remove_cuts(int dim, unsigned mask, int count);
  void move_to(int from, int to, unsigned mask, int count);
  void reductions();
  void reduce(unsigned mask);
  void chunks(int active);
  void bring_in(int active, bool ends);
  void zero_fill(int dim, int active);
  void permutations(unsigned permuted);
  void add(const Work& work, State to);

  [[nodiscard]] std::int64_t ranks_of(unsigned mask) const;
  // Is the tensor dim cut evenly, also if it were cut by so many more?
  [[nodiscard]] bool cuts_evenly(int dim, std::int64_t more) const;
  [[nodiscard]] std::int64_t size_before(int dim, int cuts) const;
  [[nodiscard]] bool may_cut(int dim) const;
  // The state with these mesh dims replicated, or cutting a tensor dim last.
  [[nodiscard]] State cleared(unsigned mask) const;
  [[nodiscard]] State cut_by(State state, int dim, unsigned mask) const;

  const PlanSpace& space_;
  Permutations permuted_;
  double memory_limit_;
  State state_ = 0;
  PlanSpace::View view_;
  std::vector<PlannedMove>* moves_ = nullptr;
};

[[nodiscard]] const char* name_of(MoveKind kind);
[[nodiscard]] inline bool is_collective(MoveKind kind) { return kind <= MoveKind::kPermute; }

}  // namespace shardprop
