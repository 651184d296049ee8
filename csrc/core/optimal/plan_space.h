// The layouts between which one tensor may move, as 64-bit states.
//
// A state has one byte for each mesh dim of two ranks and more: what is there, and, for a shard,
// its place in the shard order of its tensor dim. What can be there is numbered per space:
// Replicate is 0, then come the partials, strided shards and opaque placements of the layouts the
// space was made for, then a plain shard of each tensor dim that may be cut.
//
// A partial that a plan brings in (Replicate -> Partial, because the target asks for it) has
// another number than one that was there, since it is never reduced again.
#pragma once

#include <optional>
#include <span>

#include "layout/layout.h"
#include "optimal/cost_model.h"
#include "torch_plan/redistribute.h"

namespace shardprop {

using State = std::uint64_t;

// A layout that no plan reaches or leaves, or too many things for the numbers: policy "torch" is
// asked instead. The text is the reason.
struct OutsidePlanSpace : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A search that met too much on its way. What it found out until then holds.
struct SearchTooLong : OutsidePlanSpace {
  using OutsidePlanSpace::OutsidePlanSpace;
};

class PlanSpace {
 public:
  static constexpr std::uint8_t kReplicated = 0;
  static constexpr int kCodes = 32;

  // `model` must outlive the space. All layouts that will be met as source or target are given now.
  PlanSpace(const CostModel& model, const TensorInfo& info, const Layout& source,
            std::span<const Layout> targets);

  // Shards in the order in which they cut one tensor dim, by active mesh dim.
  struct Cuts {
    std::array<std::uint8_t, kMaxMeshDims> by{};
    int count = 0;
  };
  struct View {
    std::array<std::uint8_t, kMaxMeshDims> code{};
    std::vector<Cuts> cuts;                 // per tensor dim in play
    std::vector<std::int64_t> local_sizes;  // likewise, on the first rank
    double bytes = 0.0;                     // that the first rank holds
  };
  void look(State state, View& view) const;
  [[nodiscard]] static std::uint8_t byte_at(State state, int active) {
    return static_cast<std::uint8_t>(state >> (8 * active));
  }
  [[nodiscard]] static std::uint8_t code_at(State state, int active) {
    return byte_at(state, active) & kCodeMask;
  }
  [[nodiscard]] static int place_at(State state, int active) {
    return byte_at(state, active) >> kCodeBits;
  }
  // The state with another code and place on one mesh dim.
  [[nodiscard]] static State with(State state, int active, std::uint8_t code, int place) {
    const auto byte = static_cast<State>(code | place << kCodeBits);
    return (state & ~(State{0xff} << (8 * active))) | byte << (8 * active);
  }

  // The state of a normalised layout, and back.
  [[nodiscard]] State encode(const Layout& layout) const;
  [[nodiscard]] Layout decode(State state) const;
  // A partial that was brought in counts like one that was there.
  [[nodiscard]] State reached(State state) const;

  [[nodiscard]] const CostModel& model() const { return *model_; }
  [[nodiscard]] int active() const { return static_cast<int>(mesh_dims_.size()); }
  [[nodiscard]] int mesh_dim(int active) const { return mesh_dims_[active]; }
  [[nodiscard]] std::int64_t ranks(int active) const { return model_->size[mesh_dims_[active]]; }
  // Tensor dims in play: those that some layout cuts, and some that none does, for which an equal
  // may stand.
  [[nodiscard]] int dims() const { return static_cast<int>(dims_.size()); }
  [[nodiscard]] int tensor_dim(int dim) const { return dims_[dim]; }
  [[nodiscard]] std::int64_t size(int dim) const { return info_.shape[dims_[dim]]; }
  // The tensor dim in play before it that is its equal, or -1: only after that one is it cut.
  [[nodiscard]] int equal_before(int dim) const { return equal_before_[dim]; }
  [[nodiscard]] const TensorInfo& info() const { return info_; }
  // About how many layouts there are: each mesh dim replicated, partial, or a cut of some tensor
  // dim at some place of its shard order.
  [[nodiscard]] std::size_t layouts() const;

  // --- codes ---
  [[nodiscard]] bool is_plain_shard(std::uint8_t code) const { return code >= first_shard_; }
  [[nodiscard]] std::uint8_t shard_of(int dim) const {
    return static_cast<std::uint8_t>(first_shard_ + dim);
  }
  [[nodiscard]] Placement placement(std::uint8_t code) const;
  // Of a placement that was there. Throws OutsidePlanSpace.
  [[nodiscard]] std::uint8_t code_of(Placement placement) const;
  // The code of the same placement, had it not been brought in.
  [[nodiscard]] std::uint8_t as_there(std::uint8_t code) const {
    return code < first_shard_ ? specials_[code].there : code;
  }
  // A partial that may still be reduced.
  [[nodiscard]] bool is_pending(std::uint8_t code) const;
  // A pending partial that is to be reduced alone, before anything else happens: what it masks are
  // elements of the tensor as it is, or it is a norm beside others that are pending.
  [[nodiscard]] bool comes_first(const View& view, std::uint8_t code) const;
  // A partial of another class that was brought in, likewise of the elements that are there then:
  // nothing else happens any more.
  [[nodiscard]] bool comes_last(std::uint8_t code) const;
  [[nodiscard]] bool is_strided(std::uint8_t code) const;
  // Partials and strided shards that some target has on this mesh dim.
  [[nodiscard]] const std::vector<std::uint8_t>& wanted(int active) const {
    return wanted_[active];
  }
  // May `code`, a partial, be brought in beside the partials of the state?
  [[nodiscard]] bool may_join(const View& view, std::uint8_t code) const;
  [[nodiscard]] int dim_of(std::uint8_t code) const;  // in play, of a plain or strided shard
  // Into how many pieces a tensor dim is cut in all; those of a strided shard count each block.
  [[nodiscard]] std::int64_t pieces(const View& view, int dim) const;

  // Groups of the cost model, by their mesh dims as bits over the active ones; -1: none.
  [[nodiscard]] int group_of(unsigned mask) const { return group_of_[mask]; }
  [[nodiscard]] const Group& group(int index) const { return model_->groups[index]; }
  [[nodiscard]] unsigned mask_of(int group) const {
    return active_mask(this->group(group).mesh_dims);
  }
  // Mesh dims as bits over the active ones.
  [[nodiscard]] unsigned active_mask(std::span<const std::uint8_t> mesh_dims) const;
  [[nodiscard]] std::span<const std::uint8_t> flattened() const { return flattened_; }  // masks

  // Layouts that mean the same become one: strided shards that stand for a shard order become plain
  // shards in that order, and what is on a mesh dim of one rank does not count.
  [[nodiscard]] static Layout normalise(const Layout& layout, const TensorInfo& info,
                                        const CostModel& model);

 private:
  static constexpr int kCodeBits = 5;
  static constexpr std::uint8_t kCodeMask = (1 << kCodeBits) - 1;

  struct Special {
    Placement placement;
    bool brought_in;
    std::uint8_t there;  // the code of the same placement, had it not been brought in
  };

  void refuse_mixed_partials(const Layout& layout) const;
  // Of the source itself, or of a target.
  void number_specials(const Layout& layout, const Layout* source);
  // May a plan mask what the source has on a mesh dim? What is whole there, and is not masked yet.
  // (What comes of masked indices torch lets be reduced once: they are not gathered for that.)
  [[nodiscard]] bool may_mask(Placement masks, Placement source) const;
  std::uint8_t special(Placement placement, bool brought_in);
  void choose_dims(const Layout& source, std::span<const Layout> targets);
  void find_groups();

  const CostModel* model_;
  TensorInfo info_;
  std::vector<std::uint8_t> mesh_dims_;
  std::vector<int> dims_, equal_before_;
  std::array<std::int8_t, 256> dim_number_{};
  std::int64_t rest_bytes_ = 0;  // of an element times the tensor dims that are not in play
  std::vector<Special> specials_;
  std::size_t of_source_ = 0;  // so many of them, the first ones, has the source
  std::uint8_t first_shard_ = 1;
  std::array<std::vector<std::uint8_t>, kMaxMeshDims> wanted_;
  std::array<std::int16_t, 256> group_of_{};
  std::vector<std::uint8_t> flattened_;
};

}  // namespace shardprop
