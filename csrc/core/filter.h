// torch's filters over strategies (expand_to_full_mesh_op_strategy), applied mesh dim by mesh dim
// so that a choice of rows that no completion can save is dropped at once.
#pragma once

#include <vector>

#include "problem.h"

namespace shardprop {

class Filter {
 public:
  explicit Filter(const Problem& problem);

  // What must be remembered of the rows chosen so far.
  struct Chosen {
    // First mesh dim first, as torch checks. Otherwise what is admitted is only possible, and
    // `passes` has the last word: how a strided shard divides depends on the mesh dims left of it.
    bool in_order = true;
    std::vector<std::uint32_t> partial_kind;   // per position: kind of Partial held, or kNone
    std::vector<std::int64_t> divisor;         // per operand and tensor dim: ranks that cut it
    std::vector<bool> unshardable, unchanged;  // per operand
  };

  // Makes `chosen` that of no rows, reusing its memory.
  void clear(Chosen& chosen, bool in_order) const;
  // Does `row` on `mesh_dim` leave a chance beside what is chosen?
  [[nodiscard]] bool admits(const Chosen& chosen, int mesh_dim, int row) const;
  void extend(Chosen& chosen, int mesh_dim, int row) const;
  // Does the whole strategy pass?
  [[nodiscard]] bool passes(const Rows& rows) const;

  // Did some row fail for moving what an in-place op must keep?
  [[nodiscard]] bool blocked_in_place() const { return blocked_in_place_; }

 private:
  [[nodiscard]] bool mixes_partials(const Chosen& chosen, int row) const;
  [[nodiscard]] bool keeps_fixed(int mesh_dim, int row) const;
  [[nodiscard]] bool keeps_in_place(int mesh_dim, int row) const;
  [[nodiscard]] bool shardable(const Chosen& chosen, int mesh_dim, std::size_t operand,
                               Placement cell) const;
  [[nodiscard]] bool may_hold_asks(const Chosen& chosen, int mesh_dim, int row) const;
  [[nodiscard]] Placement cell(int row, std::size_t operand) const;

  const Problem& problem_;
  std::vector<std::size_t> divisor_offset_;
  mutable bool blocked_in_place_ = false;
};

}  // namespace shardprop
