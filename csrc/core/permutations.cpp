#include "permutations.h"

namespace shardprop {
namespace {

// A stretch of a tensor dim's cuts that the group may cut anew: in so many pieces.
struct Stretch {
  int dim;
  int place;  // among the cuts of the dim that stay: it lies before this one
  std::int64_t pieces;
};

class Permutations {
 public:
  Permutations(const PlanSpace& space, const PlanSpace::View& view, unsigned mask,
               const std::function<void(const PlanSpace::View&)>& visit)
      : space_(space), view_(view), visit_(visit), after_(view), free_(mask) {
    for (int dim = 0; dim < space.dims(); ++dim) find_stretches(dim);
    group_ = free_;
    filled_.resize(stretches_.size());
  }

  void run() {
    if (!stretches_.empty()) fill(0, 1);
  }

 private:
  void find_stretches(int dim) {
    const PlanSpace::Cuts& cuts = view_.cuts[dim];
    if (space_.size(dim) % space_.pieces(view_, dim) != 0) {
      for (int i = 0; i < cuts.count; ++i) free_ &= ~(1u << cuts.by[i]);  // stays as it is
      return;
    }
    Stretch stretch{dim, 0, 1};
    const auto end = [&] {
      if (stretch.pieces > 1) stretches_.push_back(stretch);
      stretch = {dim, stretch.place + 1, 1};
    };
    for (int i = 0; i < cuts.count; ++i) {
      if (free_ >> cuts.by[i] & 1u) {
        stretch.pieces *= space_.ranks(cuts.by[i]);
      } else {
        end();
      }
    }
    end();
  }

  // Gives stretch `index`, of which `pieces` are cut so far, one more mesh dim, in every way.
  void fill(std::size_t index, std::int64_t pieces) {
    if (index == stretches_.size()) {
      emit();
      return;
    }
    if (pieces == stretches_[index].pieces) {
      fill(index + 1, 1);
      return;
    }
    for (int a = 0; a < space_.active(); ++a) {
      const std::int64_t more = pieces * space_.ranks(a);
      if (!(free_ >> a & 1u) || stretches_[index].pieces % more != 0) continue;
      free_ &= ~(1u << a);
      PlanSpace::Cuts& cuts = filled_[index];
      cuts.by[cuts.count++] = static_cast<std::uint8_t>(a);
      fill(index, more);
      --cuts.count;
      free_ |= 1u << a;
    }
  }

  void emit() {
    after_.code = view_.code;
    after_.cuts = view_.cuts;
    for (int a = 0; a < space_.active(); ++a) {
      if (free_ >> a & 1u) after_.code[a] = PlanSpace::kReplicated;
    }
    std::size_t next = 0;
    for (int dim = 0; dim < space_.dims(); ++dim) {
      if (next < stretches_.size() && stretches_[next].dim == dim) cut_anew(dim, next);
    }
    visit_(after_);
  }

  void cut_anew(int dim, std::size_t& next) {
    const PlanSpace::Cuts& before = view_.cuts[dim];
    PlanSpace::Cuts& cuts = after_.cuts[dim];
    cuts.count = 0;
    int place = 0;
    const auto put_stretch = [&] {
      if (next == stretches_.size() || stretches_[next].dim != dim ||
          stretches_[next].place != place) {
        return;
      }
      const PlanSpace::Cuts& filled = filled_[next++];
      for (int i = 0; i < filled.count; ++i) {
        cuts.by[cuts.count++] = filled.by[i];
        after_.code[filled.by[i]] = space_.shard_of(dim);
      }
    };
    for (int i = 0; i < before.count; ++i) {
      if (group_ >> before.by[i] & 1u) continue;
      put_stretch();
      cuts.by[cuts.count++] = before.by[i];
      ++place;
    }
    put_stretch();
  }

  const PlanSpace& space_;
  const PlanSpace::View& view_;
  const std::function<void(const PlanSpace::View&)>& visit_;
  PlanSpace::View after_;
  unsigned free_;       // mesh dims that may change, and cut nothing yet
  unsigned group_ = 0;  // those that may change
  std::vector<Stretch> stretches_;
  std::vector<PlanSpace::Cuts> filled_;  // per stretch
};

}  // namespace

void for_each_permutation(const PlanSpace& space, const PlanSpace::View& view, unsigned mask,
                          const std::function<void(const PlanSpace::View&)>& visit) {
  Permutations(space, view, mask, visit).run();
}

}  // namespace shardprop
