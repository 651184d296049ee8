// torch's filters over strategies (expand_to_full_mesh_op_strategy), applied mesh dim by mesh dim
// so that a choice of rows that no completion can save is dropped at once.
#pragma once

#include <optional>
#include <vector>

#include "search/problem.h"

namespace shardprop {

class Filter {
 public:
  // What a row is dropped for.
  enum class Reason : std::uint8_t {
    kMixedPartial,  // a tensor would have Partials that cannot be pending together
    kInPlace,       // an in-place op keeps the placement of what it writes into
    kFixed,         // a tensor that nobody can move would move
    kConstraint,    // the constraint of a cell does not hold for these shards
    kTooSmall,      // a tensor dim has fewer elements than there are ranks to cut it
  };
  struct Refusal {
    Reason reason;
    int position;  // the cell that it failed at: outputs, then operands
  };

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
  [[nodiscard]] bool admits(const Chosen& chosen, int mesh_dim, int row) const {
    return !refusal(chosen, mesh_dim, row);
  }
  // The first reason why it does not; none if it does.
  [[nodiscard]] std::optional<Refusal> refusal(const Chosen& chosen, int mesh_dim, int row) const;
  void extend(Chosen& chosen, int mesh_dim, int row) const;
  // Does the whole strategy pass?
  [[nodiscard]] bool passes(const Rows& rows) const;

  // Did some row fail for moving what an in-place op must keep?
  [[nodiscard]] bool blocked_in_place() const { return blocked_in_place_; }

 private:
  // Positions of cells that fail; kPasses if none does.
  static constexpr int kPasses = -1;
  [[nodiscard]] int mixed_partial(const Chosen& chosen, int row) const;
  [[nodiscard]] int moved_fixed(int mesh_dim, int row) const;
  [[nodiscard]] int failed_ask(const Chosen& chosen, int mesh_dim, int row) const;
  [[nodiscard]] int too_small(const Chosen& chosen, int mesh_dim, int row) const;

  [[nodiscard]] bool keeps_in_place(int mesh_dim, int row) const;
  [[nodiscard]] bool shardable(const Chosen& chosen, int mesh_dim, std::size_t operand,
                               Placement placement) const;
  [[nodiscard]] int position(std::size_t operand) const;
  [[nodiscard]] Placement cell(int row, std::size_t operand) const;

  const Problem& problem_;
  std::vector<std::size_t> divisor_offset_;
  mutable bool blocked_in_place_ = false;
};

}  // namespace shardprop
