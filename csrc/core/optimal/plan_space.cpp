#include "optimal/plan_space.h"

#include <algorithm>
#include <bit>

namespace shardprop {
namespace {

Layout without_single_ranks(Layout layout, const CostModel& model) {
  for (int m = 0; m < layout.ndim; ++m) {
    if (model.size[m] == 1) layout = with_placement(layout, m, replicate());
  }
  return layout;
}

}  // namespace

Layout PlanSpace::normalise(const Layout& layout, const TensorInfo& info, const CostModel& model) {
  if (layout.ndim != model.ndim) throw OutsidePlanSpace("layout of another mesh");
  for (int m = 0; m < layout.ndim; ++m) {
    const Placement p = layout.placements[m];
    if (p.is_shard_like() && p.dim >= info.shape.size()) {
      throw OutsidePlanSpace("shard dim beyond the tensor's");
    }
  }
  const std::span<const Placement> placements(layout.placements.data(),
                                              static_cast<std::size_t>(layout.ndim));
  if (layout.ordered) return without_single_ranks(layout, model);
  // What is on a mesh dim of one rank says nothing of the order either.
  const Layout strided = without_single_ranks(default_layout(placements), model);
  if (has_strided(strided)) {
    Mesh mesh;
    mesh.ndim = model.ndim;
    mesh.size = model.size;
    // Of a size that does not divide, too: `fully_shard` and torch's planner make them so.
    if (const auto decoded = decode_strided(strided, mesh)) return *decoded;
  }
  return strided;
}

PlanSpace::PlanSpace(const CostModel& model, const TensorInfo& info, const Layout& source,
                     std::span<const Layout> targets)
    : model_(&model), info_(info) {
  for (int m = 0; m < model.ndim; ++m) {
    if (model.size[m] > 1) mesh_dims_.push_back(static_cast<std::uint8_t>(m));
  }
  refuse_mixed_partials(source);
  for (const Layout& target : targets) refuse_mixed_partials(target);
  specials_.push_back({replicate(), false, kReplicated});
  number_specials(source, nullptr);
  of_source_ = specials_.size();
  for (const Layout& target : targets) number_specials(target, &source);
  first_shard_ = static_cast<std::uint8_t>(specials_.size());
  choose_dims(source, targets);
  if (first_shard_ + dims_.size() > kCodeMask) throw OutsidePlanSpace("too many placements");
  find_groups();
}

// Reductions of two kinds do not commute; torch refuses to redistribute such a tensor.
void PlanSpace::refuse_mixed_partials(const Layout& layout) const {
  for (const std::uint8_t m : mesh_dims_) {
    for (const std::uint8_t other : mesh_dims_) {
      const Placement a = layout.placements[m], b = layout.placements[other];
      // As torch does, by the names of the reduce ops.
      if (a.is_partial() && b.is_partial() && !may_mix(a.reduce_op(), b.reduce_op())) {
        throw OutsidePlanSpace("mixed partials");
      }
    }
  }
}

std::uint8_t PlanSpace::special(Placement placement, bool brought_in) {
  for (std::size_t i = 0; i < specials_.size(); ++i) {
    if (specials_[i].placement == placement && specials_[i].brought_in == brought_in) {
      return static_cast<std::uint8_t>(i);
    }
  }
  if (specials_.size() > kCodeMask) throw OutsidePlanSpace("too many placements");
  const std::uint8_t there =
      brought_in ? special(placement, false) : static_cast<std::uint8_t>(specials_.size());
  specials_.push_back({placement, brought_in, there});
  return static_cast<std::uint8_t>(specials_.size() - 1);
}

bool PlanSpace::may_mask(Placement masks, Placement source) const {
  const auto end = specials_.begin() + static_cast<std::ptrdiff_t>(of_source_);
  return source.is_replicate() && std::none_of(specials_.begin(), end, [&](const Special& known) {
           return known.placement == masks;
         });
}

void PlanSpace::number_specials(const Layout& layout, const Layout* source) {
  for (int a = 0; a < active(); ++a) {
    const Placement p = layout.placements[mesh_dims_[a]];
    if (p.is_replicate() || p.is_shard()) continue;
    // A target's partial may be the source's, and so keep its number.
    if (source == nullptr || p.is_partial() || p.kind == Kind::kOpaque) (void)special(p, false);
    if (source == nullptr || p.kind == Kind::kOpaque) continue;
    const bool masks = p.is_partial() && p.partial_class() >= kFirstOtherClass;
    if (masks && !may_mask(p, source->placements[mesh_dims_[a]])) continue;
    const std::uint8_t code = special(p, p.is_partial());
    auto& wanted = wanted_[a];
    if (std::find(wanted.begin(), wanted.end(), code) == wanted.end()) wanted.push_back(code);
  }
}

void PlanSpace::choose_dims(const Layout& source, std::span<const Layout> targets) {
  std::array<bool, 256> cut{};
  const auto note = [&](const Layout& layout) {
    for (int a = 0; a < active(); ++a) {
      const Placement p = layout.placements[mesh_dims_[a]];
      if (p.is_shard_like()) cut[p.dim] = true;
    }
  };
  note(source);
  for (const Layout& target : targets) note(target);
  dim_number_.fill(-1);
  rest_bytes_ = info_.itemsize;
  for (int d = 0; d < static_cast<int>(info_.shape.size()); ++d) {
    // Dims that no layout cuts are all the same if they are of one size and gather at one price.
    int equals = 0, last = -1;
    for (int i = 0; i < dims() && !cut[d]; ++i) {
      if (cut[dims_[i]] || size(i) != info_.shape[d] || (dims_[i] == 0) != (d == 0)) continue;
      ++equals;
      last = i;
    }
    if (equals >= active()) {
      rest_bytes_ *= info_.shape[d];
      continue;
    }
    dim_number_[d] = static_cast<std::int8_t>(dims_.size());
    dims_.push_back(d);
    equal_before_.push_back(last);
  }
}

unsigned PlanSpace::active_mask(std::span<const std::uint8_t> mesh_dims) const {
  unsigned mask = 0;
  for (const std::uint8_t m : mesh_dims) {
    for (int a = 0; a < active(); ++a) mask |= mesh_dims_[a] == m ? 1u << a : 0u;
  }
  return mask;
}

void PlanSpace::find_groups() {
  group_of_.fill(-1);
  for (std::size_t g = 0; g < model_->groups.size(); ++g) {
    const unsigned mask = mask_of(static_cast<int>(g));
    group_of_[mask] = static_cast<std::int16_t>(g);
    if (std::popcount(mask) > 1) flattened_.push_back(static_cast<std::uint8_t>(mask));
  }
}

std::uint8_t PlanSpace::code_of(Placement placement) const {
  if (placement.is_shard()) return shard_of(dim_number_[placement.dim]);
  for (std::size_t i = 0; i < specials_.size(); ++i) {
    if (specials_[i].placement == placement && !specials_[i].brought_in) {
      return static_cast<std::uint8_t>(i);
    }
  }
  throw OutsidePlanSpace("placement that no layout of the plan has");
}

State PlanSpace::encode(const Layout& layout) const {
  State state = 0;
  for (int a = 0; a < active(); ++a) {
    const int m = mesh_dims_[a];
    state = with(state, a, code_of(layout.placements[m]), layout.position[m]);
  }
  return state;
}

Layout PlanSpace::decode(State state) const {
  Layout layout;
  layout.ndim = model_->ndim;
  for (int a = 0; a < active(); ++a) {
    const std::uint8_t byte = byte_at(state, a);
    layout.placements[mesh_dims_[a]] = placement(byte & kCodeMask);
    layout.position[mesh_dims_[a]] = byte >> kCodeBits;
  }
  return layout;
}

State PlanSpace::reached(State state) const {
  for (int a = 0; a < active(); ++a) {
    const std::uint8_t code = code_at(state, a);
    if (as_there(code) != code) state = with(state, a, as_there(code), 0);
  }
  return state;
}

void PlanSpace::look(State state, View& view) const {
  view.cuts.assign(dims_.size(), {});
  view.local_sizes.resize(dims_.size());
  for (int a = 0; a < active(); ++a) {
    const std::uint8_t byte = byte_at(state, a);
    const std::uint8_t code = byte & kCodeMask;
    view.code[a] = code;
    const int dim = dim_of(code);
    if (dim < 0) continue;
    view.cuts[dim].by[byte >> kCodeBits] = static_cast<std::uint8_t>(a);
    ++view.cuts[dim].count;
  }
  auto bytes = static_cast<double>(rest_bytes_);
  for (int dim = 0; dim < dims(); ++dim) {
    std::int64_t local = size(dim);
    for (int i = 0; i < view.cuts[dim].count; ++i) {
      const int a = view.cuts[dim].by[i];
      local = local_size(placement(view.code[a]), local, ranks(a), 0);
    }
    view.local_sizes[dim] = local;
    bytes *= static_cast<double>(local);
  }
  view.bytes = bytes;
}

Placement PlanSpace::placement(std::uint8_t code) const {
  return is_plain_shard(code) ? shard(dims_[code - first_shard_]) : specials_[code].placement;
}

bool PlanSpace::is_pending(std::uint8_t code) const {
  return !is_plain_shard(code) && specials_[code].placement.is_partial() &&
         !specials_[code].brought_in;
}

bool PlanSpace::comes_first(const View& view, std::uint8_t code) const {
  if (!is_pending(code)) return false;
  const Placement partial = specials_[code].placement;
  if (partial.partial_class() != kNormClass) return partial.partial_class() != kPlainClass;
  const auto others = std::span(view.code).first(static_cast<std::size_t>(active()));
  return std::any_of(others.begin(), others.end(), [&](std::uint8_t other) {
    return is_pending(other) && !commute(partial, specials_[other].placement);
  });
}

bool PlanSpace::comes_last(std::uint8_t code) const {
  return !is_plain_shard(code) && specials_[code].brought_in &&
         specials_[code].placement.partial_class() >= kFirstOtherClass;
}

bool PlanSpace::is_strided(std::uint8_t code) const {
  return !is_plain_shard(code) && specials_[code].placement.is_strided();
}

int PlanSpace::dim_of(std::uint8_t code) const {
  if (is_plain_shard(code)) return code - first_shard_;
  return is_strided(code) ? dim_number_[specials_[code].placement.dim] : -1;
}

std::size_t PlanSpace::layouts() const {
  std::size_t layouts = 1;
  for (int a = 0; a < active(); ++a) layouts *= first_shard_ + dims_.size() + a;
  return layouts;
}

std::int64_t PlanSpace::pieces(const View& view, int dim) const {
  std::int64_t pieces = 1;
  for (int i = 0; i < view.cuts[dim].count; ++i) {
    const int a = view.cuts[dim].by[i];
    pieces *= ranks(a);
    if (is_strided(view.code[a])) pieces *= placement(view.code[a]).value;
  }
  return pieces;
}

bool PlanSpace::may_join(const View& view, std::uint8_t code) const {
  const Placement wanted = specials_[code].placement;
  for (int a = 0; a < active(); ++a) {
    if (is_plain_shard(view.code[a])) continue;
    const Placement there = specials_[view.code[a]].placement;
    if (there.is_partial() && !commute(there, wanted)) return false;
  }
  return true;
}

}  // namespace shardprop
