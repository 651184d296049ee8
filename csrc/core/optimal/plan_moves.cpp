#include "optimal/plan_moves.h"

#include <bit>
#include <cmath>

namespace shardprop {
namespace {

constexpr unsigned bit(int active) { return 1u << active; }

std::int64_t ceil_div(std::int64_t size, std::int64_t pieces) {
  return (size + pieces - 1) / pieces;
}

// `bytes` with one tensor dim of another size.
double resized(double bytes, std::int64_t from, std::int64_t to) {
  return from == 0 ? 0.0 : bytes / static_cast<double>(from) * static_cast<double>(to);
}

// Of indices that are masked: two are compared, which gives flags, and joined; the indices are
// copied, shifted, and set to 0 where the flag says so.
constexpr int kMaskKernels = 6;
constexpr double kMaskTraffic = 8.0;  // times the bytes of the indices

Collective collective_of(MoveKind kind) { return static_cast<Collective>(kind); }

static_assert(static_cast<int>(MoveKind::kAllGather) == static_cast<int>(Collective::kAllGather));
static_assert(static_cast<int>(MoveKind::kPermute) == static_cast<int>(Collective::kPermute));

}  // namespace

void MoveTable::from(State state, std::vector<PlannedMove>& moves, unsigned permuted) {
  moves.clear();
  moves_ = &moves;
  state_ = state;
  space_.look(state, view_);
  bool begins = false, ends = false;
  for (int a = 0; a < space_.active(); ++a) {
    ends |= space_.comes_last(view_.code[a]);
    if (!space_.comes_first(view_, view_.code[a])) continue;
    begins = true;
    reduce(bit(a));
  }
  if (begins) return;
  if (!ends) gathers();
  if (!ends) reductions();
  for (int a = 0; a < space_.active(); ++a) {
    if (view_.code[a] != PlanSpace::kReplicated) continue;
    if (!ends) chunks(a);
    bring_in(a, ends);
  }
  if (!ends) permutations(permuted);
}

std::int64_t MoveTable::ranks_of(unsigned mask) const {
  std::int64_t ranks = 1;
  for (int a = 0; a < space_.active(); ++a) {
    if (mask & bit(a)) ranks *= space_.ranks(a);
  }
  return ranks;
}

bool MoveTable::cuts_evenly(int dim, std::int64_t more) const {
  return space_.size(dim) % (space_.pieces(view_, dim) * more) == 0;
}

std::int64_t MoveTable::size_before(int dim, int cuts) const {
  std::int64_t local = space_.size(dim);
  for (int i = 0; i < cuts; ++i) {
    const int a = view_.cuts[dim].by[i];
    local = local_size(space_.placement(view_.code[a]), local, space_.ranks(a), 0);
  }
  return local;
}

bool MoveTable::may_cut(int dim) const {
  const int before = space_.equal_before(dim);
  return before < 0 || view_.cuts[before].count > 0;
}

State MoveTable::cleared(unsigned mask) const {
  State state = state_;
  for (int a = 0; a < space_.active(); ++a) {
    if (mask & bit(a)) state = PlanSpace::with(state, a, PlanSpace::kReplicated, 0);
  }
  return state;
}

State MoveTable::cut_by(State state, int dim, unsigned mask) const {
  int place = view_.cuts[dim].count;
  for (int a = 0; a < space_.active(); ++a) {
    if (mask & bit(a)) state = PlanSpace::with(state, a, space_.shard_of(dim), place++);
  }
  return state;
}

void MoveTable::gathers() {
  for (int dim = 0; dim < space_.dims(); ++dim) {
    const PlanSpace::Cuts& cuts = view_.cuts[dim];
    unsigned mask = 0;
    // Ever longer ends of the shard order; on a flattened mesh it has to ascend.
    for (int i = cuts.count - 1; i >= 0; --i) {
      const int a = cuts.by[i];
      if (i + 1 < cuts.count && a > cuts.by[i + 1]) break;
      const bool strided = space_.is_strided(view_.code[a]);
      if (strided && mask != 0) break;
      mask |= bit(a);
      remove_cuts(dim, mask, cuts.count - i);
      if (strided) break;
    }
    if (cuts.count > 0) zero_fill(dim, cuts.by[cuts.count - 1]);
  }
}

// The all-gather that removes the last `count` cuts of a tensor dim, those of the mesh dims in
// `mask`; and the all-to-alls that remove the same cuts and then cut another tensor dim.
void MoveTable::remove_cuts(int dim, unsigned mask, int count) {
  const bool flattened = count > 1;
  if (space_.group_of(mask) < 0 || (flattened && !cuts_evenly(dim, 1))) return;
  const int last = view_.cuts[dim].by[view_.cuts[dim].count - 1];
  const bool strided = space_.is_strided(view_.code[last]);
  const std::int64_t ranks = ranks_of(mask);
  const std::int64_t whole = size_before(dim, view_.cuts[dim].count - count);
  const bool uneven = whole % ranks != 0;
  const bool copies = space_.tensor_dim(dim) != 0 || uneven;
  const double gathered = static_cast<double>(ranks) * view_.bytes;

  Work gather{MoveKind::kAllGather, mask, resized(view_.bytes, view_.local_sizes[dim], whole)};
  gather.wire = static_cast<double>(ranks - 1) * view_.bytes;
  if (strided) {
    gather.kernels = 2;
    gather.traffic = 4 * gathered;
    gather.staging = gathered;
  } else {
    gather.kernels = copies + uneven;
    gather.traffic = (copies ? 2 * gathered : 0.0) + (uneven ? 2 * view_.bytes : 0.0);
    gather.staging = copies ? gathered : 0.0;
  }
  add(gather, cleared(mask));
  for (int to = 0; to < space_.dims() && !strided; ++to) {
    if (to != dim && may_cut(to)) move_to(dim, to, mask, count);
  }
}

void MoveTable::move_to(int from, int to, unsigned mask, int count) {
  const std::int64_t ranks = ranks_of(mask);
  if (count > 1 && !cuts_evenly(to, ranks)) return;
  const std::int64_t whole_from = size_before(from, view_.cuts[from].count - count);
  const std::int64_t whole_to = view_.local_sizes[to];
  const std::int64_t piece = ceil_div(whole_to, ranks);
  const bool uneven = whole_from % ranks != 0 || whole_to % ranks != 0;
  const double padded = resized(view_.bytes, whole_to, piece * ranks);
  const bool gathers = space_.model().all_to_all_gathers;
  Work work{MoveKind::kAllToAll, mask,
            resized(resized(view_.bytes, view_.local_sizes[from], whole_from), whole_to, piece)};
  work.wire =
      static_cast<double>(ranks - 1) * padded / (gathers ? 1.0 : static_cast<double>(ranks));
  work.kernels = 2 + uneven;
  work.traffic = (uneven ? 6 : 4) * padded;
  work.staging = gathers ? static_cast<double>(ranks) * padded : padded;
  add(work, cut_by(state_, to, mask));
}

void MoveTable::zero_fill(int dim, int active) {
  if (!space_.is_plain_shard(view_.code[active])) return;
  for (const std::uint8_t code : space_.wanted(active)) {
    const Placement wanted = space_.placement(code);
    if (!(wanted == partial(kSum)) || !space_.may_join(view_, code)) continue;
    const std::int64_t whole = size_before(dim, view_.cuts[dim].count - 1);
    Work fill{MoveKind::kZeroFill, bit(active),
              resized(view_.bytes, view_.local_sizes[dim], whole)};
    fill.kernels = 2;
    fill.traffic = fill.out_bytes + 2 * view_.bytes;
    add(fill, PlanSpace::with(state_, active, code, 0));
  }
}

void MoveTable::reductions() {
  unsigned pending = 0;
  for (int a = 0; a < space_.active(); ++a) {
    if (!space_.is_pending(view_.code[a])) continue;
    reduce(bit(a));
    pending |= bit(a);
  }
  for (const unsigned mask : space_.flattened()) {
    if ((mask & pending) == mask) reduce(mask);
  }
}

void MoveTable::reduce(unsigned mask) {
  const auto op_of = [&](int a) { return space_.placement(view_.code[a]); };
  const Placement first = op_of(std::countr_zero(mask));
  bool averages = false;
  for (int a = 0; a < space_.active(); ++a) {
    if (!(mask & bit(a))) continue;
    if (!commute(first, op_of(a))) return;
    averages |= op_of(a).reduce_op() == kAvg;
  }
  // Over several mesh dims an average is a sum that is divided.
  const bool divides = averages && std::popcount(mask) > 1;
  // A norm's powers are summed, and the root taken of what comes out.
  const bool roots = first.partial_class() == kNormClass;
  const double powers = roots ? view_.bytes : 0.0;
  const auto ranks = static_cast<double>(ranks_of(mask));
  Work all{MoveKind::kAllReduce, mask, view_.bytes};
  all.wire = std::floor(2 * (ranks - 1) * view_.bytes / ranks);
  all.kernels = 1 + divides + 2 * roots;
  all.traffic = (divides ? 4 : 2) * view_.bytes + 4 * powers;
  all.staging = powers;
  add(all, cleared(mask));

  for (int dim = 0; dim < space_.dims(); ++dim) {
    if (!may_cut(dim) || (std::popcount(mask) > 1 && !cuts_evenly(dim, ranks_of(mask)))) continue;
    const std::int64_t whole = view_.local_sizes[dim];
    const std::int64_t piece = ceil_div(whole, ranks_of(mask));
    const bool uneven = whole % ranks_of(mask) != 0;
    const bool copies = space_.tensor_dim(dim) != 0 || uneven;
    const double padded = resized(view_.bytes, whole, piece * ranks_of(mask));
    Work scatter{MoveKind::kReduceScatter, mask, padded / ranks};
    scatter.wire = (ranks - 1) * padded / ranks;
    const double piece_bytes = padded / ranks;
    scatter.kernels = copies + divides + 2 * roots;
    scatter.traffic = (copies ? 2 * padded : 0.0) + (divides ? 2 * piece_bytes : 0.0) +
                      (roots ? 2 * (powers + piece_bytes) : 0.0);
    scatter.staging = (copies ? padded : 0.0) + powers;
    add(scatter, cut_by(state_, dim, mask));
  }
}

void MoveTable::chunks(int active) {
  for (int dim = 0; dim < space_.dims(); ++dim) {
    if (!may_cut(dim)) continue;
    const std::int64_t whole = view_.local_sizes[dim];
    const std::int64_t piece = ceil_div(whole, space_.ranks(active));
    Work chunk{MoveKind::kChunk, bit(active), resized(view_.bytes, whole, piece)};
    chunk.kernels = 1;
    chunk.traffic = 2 * chunk.out_bytes;
    add(chunk, cut_by(state_, dim, bit(active)));
  }
}

// What only a target asks for: strided shards and partials. `ends`: those alone that come last.
void MoveTable::bring_in(int active, bool ends) {
  for (const std::uint8_t code : space_.wanted(active)) {
    const Placement wanted = space_.placement(code);
    if (space_.comes_last(code)) {
      if (!space_.may_join(view_, code)) continue;
      Work mask{MoveKind::kPartition, bit(active), view_.bytes};
      mask.kernels = kMaskKernels;
      mask.traffic = kMaskTraffic * view_.bytes;
      add(mask, PlanSpace::with(state_, active, code, 0));
    } else if (ends) {
      continue;
    } else if (wanted.is_strided()) {
      const int dim = space_.dim_of(code);
      const std::int64_t whole = view_.local_sizes[dim];
      const std::int64_t piece = local_size(wanted, whole, space_.ranks(active), 0);
      Work chunk{MoveKind::kChunk, bit(active), resized(view_.bytes, whole, piece)};
      chunk.kernels = 1;
      chunk.traffic = 2 * chunk.out_bytes;
      add(chunk, PlanSpace::with(state_, active, code, view_.cuts[dim].count));
    } else if (wanted.reduce_op() == kSum || wanted.reduce_op() == kAvg ||
               wanted.reduce_op() == kMin || wanted.reduce_op() == kMax) {
      if (!space_.may_join(view_, code)) continue;
      const bool divides = wanted.reduce_op() == kSum;
      Work partition{MoveKind::kPartition, bit(active), divides ? view_.bytes : 0.0};
      partition.kernels = divides;
      partition.traffic = divides ? 2 * view_.bytes : 0.0;
      add(partition, PlanSpace::with(state_, active, code, 0));
    }
  }
}

void MoveTable::permutations(unsigned permuted) {
  for (const unsigned mask : space_.flattened()) {
    if ((mask & permuted) == mask) continue;
    bool movable = true, cuts = false;
    for (int a = 0; a < space_.active(); ++a) {
      if (!(mask & bit(a))) continue;
      cuts |= space_.is_plain_shard(view_.code[a]);
      movable &= view_.code[a] == PlanSpace::kReplicated || space_.is_plain_shard(view_.code[a]);
    }
    if (!movable || !cuts) continue;
    Work permute{MoveKind::kPermute, mask, view_.bytes};
    permute.wire = view_.bytes;
    for (const State to : permuted_.from(state_, view_, mask)) add(permute, to);
  }
}

void MoveTable::add(const Work& work, State to) {
  const double peak = view_.bytes + work.out_bytes + work.staging;
  if (memory_limit_ > 0.0 && peak > memory_limit_) return;
  const CostModel& model = space_.model();
  const bool sends = is_collective(work.kind);
  const std::int64_t communication =
      sends ? model.communication(collective_of(work.kind),
                                  space_.group(space_.group_of(work.mask)), work.wire)
            : 0;
  const std::int64_t local = work.kernels > 0 ? model.local_work(work.kernels, work.traffic) : 0;
  if (communication + local >= kMaxPicoseconds) return;
  moves_->push_back({work.kind, static_cast<std::uint8_t>(work.mask), to,
                     price_of(communication + local, sends), peak, communication, work.wire});
}

const char* name_of(MoveKind kind) {
  constexpr const char* kNames[kMoveKinds] = {"all_gather", "reduce_scatter", "all_reduce",
                                              "all_to_all", "permute",        "chunk",
                                              "partition",  "zero_fill"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace shardprop
