#include <algorithm>

#include "check.h"
#include "random_problem.h"
#include "search/enumerate.h"
#include "search/pricer.h"
#include "search/region.h"
#include "search/search.h"
#include "torch_plan/transition.h"

using namespace shardprop;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

using OperandSizes = std::vector<std::int64_t>;  // of all operands, one after another

OperandSizes sizes_of(const Problem& problem) {
  OperandSizes sizes;
  for (const Operand& operand : problem.operands) {
    sizes.insert(sizes.end(), operand.info.shape.begin(), operand.info.shape.end());
  }
  return sizes;
}

Problem resized(const Problem& problem, const OperandSizes& sizes) {
  Problem other = problem;
  std::size_t next = 0;
  for (Operand& operand : other.operands) {
    for (auto& size : operand.info.shape) size = sizes[next++];
  }
  return other;
}

// Of the largest operand.
double most_bytes(const Problem& problem, const OperandSizes& sizes) {
  std::size_t next = 0;
  double most = 0.0;
  for (const Operand& operand : problem.operands) {
    double bytes = static_cast<double>(operand.info.itemsize);
    for (std::size_t d = 0; d < operand.info.shape.size(); ++d) {
      bytes *= static_cast<double>(sizes[next++]);
      most = std::max(most, bytes);
    }
  }
  return most;
}

struct Counts {
  int same = 0, contained = 0, other = 0;

  void add(const Counts& counts) {
    same += counts.same;
    contained += counts.contained;
    other += counts.other;
  }
  bool mostly_contained() const { return contained > same * 0.95; }
};

// A problem, its region, and what other sizes made of them.
class Trial {
 public:
  Trial(const Problem& problem, Decision decision, Region region)
      : problem_(problem), decision_(std::move(decision)), region_(std::move(region)) {}

  void look_at(const OperandSizes& sizes) {
    const bool within = region_.contains(sizes);
    const double bytes = most_bytes(problem_, sizes);
    CHECK(!within || bytes <= kMaxRegionBytes);
    if (bytes >= 0x1p53) return;  // declined: see Decoder::spec
    const Decision then = decide(resized(problem_, sizes));
    const bool is_same = then.verdict == Verdict::kFound && then.rows == decision_.rows;
    CHECK(!within || is_same);
    if (bytes > kMaxRegionBytes) return;
    counts.same += is_same;
    counts.contained += within;
    counts.other += !is_same;
  }

  Counts counts;

 private:
  const Problem& problem_;
  Decision decision_;
  Region region_;
};

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // As many small ones as there are large ones.
  std::int64_t size() {
    if (pick(1, 20) == 1) return pick(0, 1);
    return std::uniform_int_distribution<std::int64_t>(1, std::int64_t{2} << pick(0, 12))(random_);
  }

  // Every size another, or some of them, or one of them in all operands that have it, as a longer
  // sequence would change them.
  OperandSizes sizes(OperandSizes now) {
    const int kind = pick(0, 2);
    const auto old = now.empty() ? 0 : now[pick(0, static_cast<int>(now.size()) - 1)];
    const auto drawn = size();
    for (auto& each : now) {
      if (kind == 0 || (kind == 1 && pick(0, 2) == 0)) each = size();
      if (kind == 2 && each == old) each = drawn;
    }
    return now;
  }

 private:
  std::mt19937_64 random_;
};

// Numbers of pieces that some strategy may want of a tensor dim, each mesh dim cutting it or not.
std::vector<std::int64_t> piece_counts(const Mesh& mesh) {
  std::vector<std::int64_t> counts;
  for (int cut = 0; cut < 1 << mesh.ndim; ++cut) {
    std::int64_t pieces = 1;
    for (int m = 0; m < mesh.ndim; ++m) pieces *= (cut >> m & 1) != 0 ? mesh.size[m] : 1;
    counts.push_back(pieces);
    counts.push_back(2 * pieces);  // the split factor of all strided shards here
  }
  return counts;
}

// OperandSizes of one tensor dim, the others being as they are, at which some strategy costs as
// much as the chosen one.
std::vector<double> crossings(const Problem& problem, const Rows& chosen, std::size_t at) {
  constexpr std::int64_t kFar = 1 << 20;
  OperandSizes near = sizes_of(problem), far = near;
  near[at] = 0;
  far[at] = kFar;
  const Problem at_near = resized(problem, near), at_far = resized(problem, far);
  HistoryPricer near_pricer(at_near), far_pricer(at_far);
  const double low = price_strategy(at_near, near_pricer, chosen)->cost;
  const double rise = price_strategy(at_far, far_pricer, chosen)->cost - low;
  std::vector<double> found;
  (void)for_each_valid(problem, [&](const Rows& rows) {
    const double base = price_strategy(at_near, near_pricer, rows)->cost;
    const double slope = price_strategy(at_far, far_pricer, rows)->cost - base;
    const double crossing = (base - low) / (rise - slope) * kFar;
    if (crossing >= 0.0 && crossing < 0x1p40) found.push_back(crossing);
    return Visit::kTaken;
  });
  return found;
}

// Both sides of every size of one tensor dim at which the decision could turn.
void look_at_every_end(const Problem& problem, const Rows& chosen, Trial& trial) {
  const OperandSizes now = sizes_of(problem);
  for (std::size_t at = 0; at < now.size(); ++at) {
    std::vector<std::int64_t> ends = piece_counts(problem.mesh);
    for (const double crossing : crossings(problem, chosen, at)) {
      ends.push_back(static_cast<std::int64_t>(crossing));
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    OperandSizes then = now;
    for (const std::int64_t end : ends) {
      for (std::int64_t size = std::max<std::int64_t>(end - 1, 0); size <= end + 2; ++size) {
        then[at] = size;
        trial.look_at(then);
      }
    }
    for (const std::int64_t size :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 30, std::int64_t{1} << 45, kMost}) {
      then[at] = size;
      trial.look_at(then);
    }
  }
}

// The sizes of one of several operands are often those of another, and prices level.
Problem draw_problem(testing::RandomProblem& random, Draws& draws) {
  Problem problem = random.next();
  problem.op_hashes = testing::kOpHashes;
  return draws.pick(0, 1) == 0 ? problem : resized(problem, draws.sizes(sizes_of(problem)));
}

OperandSizes flat(std::initializer_list<std::vector<std::int64_t>> shapes) {
  OperandSizes sizes;
  for (const auto& shape : shapes) sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

// Operands of one shape, on a mesh whose sizes are no powers of two: several strategies cost the
// same but for rounding, whatever the sizes, and which of them is chosen can change with any size.
Problem draw_level(Draws& draws) {
  Problem problem;
  static constexpr std::int64_t kRanks[] = {3, 5, 6, 7};
  std::vector<std::int64_t> ranks(draws.pick(2, 3));
  for (auto& size : ranks) size = kRanks[draws.pick(0, 3)];
  problem.mesh = ring_mesh(ranks, 1000);
  problem.dialect.compensated_sum = draws.pick(0, 1) == 1;
  problem.positional = draws.pick(2, 3);
  problem.table = {0, problem.positional, {}};
  const auto draw = [&] {
    const Placement all[] = {replicate(), shard(0), shard(1), partial(kSum)};
    return all[draws.pick(0, 3)];
  };
  for (int cell = 0; cell < draws.pick(3, 5) * problem.positional; ++cell) {
    problem.table.cells.push_back(draw());
  }
  problem.table.cells.resize(problem.table.cells.size() / problem.positional * problem.positional);
  problem.table = with_replicate_row(problem.table, {}, false);
  const std::int64_t tokens = 8 * draws.size();
  for (int i = 0; i < problem.positional; ++i) {
    Operand operand;
    operand.info = {{tokens, 1024}, 4};
    std::vector<Placement> placements;
    for (int m = 0; m < problem.mesh.ndim; ++m) placements.push_back(draw());
    operand.layout = default_layout(placements);
    problem.operands.push_back(operand);
  }
  return problem;
}

Region region_for(const Problem& problem) { return region_of(problem, decide(problem)).value(); }

}  // namespace

TEST(within_a_region_the_decision_is_the_same) {
  testing::RandomProblem random(20261122);
  Draws draws(5);
  int regions = 0;
  Counts all, priced, ends;
  for (int i = 0; i < 2500; ++i) {
    const Problem problem = draw_problem(random, draws);
    const Decision decision = decide(problem);
    const auto region = region_of(problem, decision);
    if (!region) {
      CHECK(decision.verdict != Verdict::kFound || problem.accepts || depends_on_history(problem));
      continue;
    }
    ++regions;
    CHECK(region->contains(sizes_of(problem)));
    Trial close(problem, decision, *region), drawn(problem, decision, *region);
    look_at_every_end(problem, decision.rows, close);
    for (int n = 0; n < 40; ++n) drawn.look_at(draws.sizes(sizes_of(problem)));
    all.add(drawn.counts);
    ends.add(close.counts);
    if (decision.cost > 0.0 && decision.cost < kImpossible) priced.add(drawn.counts);
  }
  CHECK(regions > 1500);
  // Regions are neither everything nor next to nothing.
  CHECK(all.other > 8'000 && priced.other > 5'000 && ends.other > 15'000);
  CHECK(all.mostly_contained() && priced.mostly_contained() && ends.mostly_contained());
}

TEST(a_region_ends_where_prices_cross) {
  const Region few = region_for(testing::gather_one(64));
  for (const std::int64_t tokens : {0, 1, 64, 1023}) {
    CHECK(few.contains(flat({{tokens, 1024}, {1024, 1024}})));
  }
  CHECK(!few.contains(flat({{1025, 1024}, {1024, 1024}})));
  const Region many = region_for(testing::gather_one(4096));
  for (const std::int64_t tokens : {1025, 4096, 1 << 20}) {
    CHECK(many.contains(flat({{tokens, 1024}, {1024, 1024}})));
  }
  CHECK(!many.contains(flat({{1023, 1024}, {1024, 1024}})));
  CHECK(!many.contains(flat({{7, 1024}, {1, 1024}})));  // x is cut into 8
  CHECK(many.contains(flat({{8, 1024}, {1, 1024}})));
}

TEST(where_prices_are_level_rounding_decides_as_in_the_search) {
  Draws draws(11);
  Counts all, turned;
  for (int i = 0; i < 1500; ++i) {
    const Problem problem = draw_level(draws);
    const Decision decision = decide(problem);
    Trial trial(problem, decision, region_of(problem, decision).value());
    for (int n = 0; n < 30; ++n) {
      OperandSizes sizes = sizes_of(problem);
      const std::int64_t tokens = 343 + draws.size();
      for (std::size_t at = 0; at < sizes.size(); at += 2) sizes[at] = tokens;
      trial.look_at(sizes);
    }
    all.add(trial.counts);
    if (trial.counts.same > 0 && trial.counts.other > 0) turned.add(trial.counts);
  }
  CHECK(turned.other > 1500);
  CHECK(all.mostly_contained() && turned.contained > turned.same * 0.9);
}

TEST(the_same_steps_on_another_mesh_dim_are_another_price) {
  // Two partials: each mesh dim reduces one of them, and the larger goes where it is cheaper. The
  // output is fixed, so that rows 0 and 1 are for the first mesh dim; and z may not mix its kinds
  // of Partial, so that only 0 with 3 and 1 with 2 are left.
  const Placement r = replicate(), sum = partial(kSum), max = partial(kMax);
  const RowTable table{1,
                       3,
                       {shard(0), r, sum, sum,  //
                        shard(0), sum, r, max,  //
                        shard(1), r, sum, max,  //
                        shard(1), sum, r, sum}};
  const std::vector<Placement> out{shard(0), shard(1)}, partials{sum, sum}, replicas{r, r};
  const std::vector<std::int64_t> of_two_sizes{2, 8}, of_two_links{4, 4};
  for (const auto& ranks : {of_two_sizes, of_two_links}) {
    Problem problem;
    problem.mesh = ring_mesh(ranks, ranks[0] == ranks[1] ? 4 : 16);
    problem.table = table;
    problem.fixed = {{0, default_layout(out)}};
    problem.positional = 3;
    for (const std::int64_t rows : {1000, 1050}) {
      problem.operands = {{default_layout(partials), {{1024, 1024}, 4}},
                          {default_layout(partials), {{rows, 1024}, 4}},
                          {default_layout(replicas), {{8}, 4}}};
      const Decision decision = decide(problem);
      Trial trial(problem, decision, region_for(problem));
      for (std::int64_t size = 1; size < 1 << 20; size = size * 5 / 4 + 1) {
        trial.look_at(flat({{1024, 1024}, {size, 1024}, {8}}));
        trial.look_at(flat({{size, 1024}, {1024, 1024}, {8}}));
      }
      CHECK(trial.counts.contained > 40 && trial.counts.other > 40);
    }
  }
}

TEST(sizes_that_are_not_those_of_the_operands_are_outside) {
  const Region region = region_for(testing::gather_one(64));
  CHECK(!region.contains(OperandSizes{64, 1024, 1024}));
  CHECK(!region.contains(OperandSizes{}));
  CHECK(!region.contains(OperandSizes{-64, 1024, 1024, 1024}));
  CHECK(!region.contains(OperandSizes{kMost, kMost, 1024, 1024}));
  CHECK(region.bytes() > sizeof(Region));
}

TEST(level_prices_are_compared_as_they_are) {
  // Operands of one size, either of which may be gathered.
  const Region region = region_for(testing::gather_one(1024));
  for (const std::int64_t size : {1, 7, 1000, 4096}) {
    const OperandSizes sizes = flat({{size, 1024}, {size, 1024}});
    const Decision then = decide(resized(testing::gather_one(1024), sizes));
    CHECK_EQ(region.contains(sizes), then.rows == decide(testing::gather_one(1024)).rows);
  }
  CHECK(region.contains(flat({{4096, 1024}, {4096, 1024}})));
}

TEST(what_takes_too_long_or_overflows_has_no_region) {
  Problem problem = testing::gather_one(64);
  problem.mesh.bandwidth[0] = 1e-300;
  CHECK(!region_of(problem, decide(problem)));

  Problem many = testing::gather_one(1 << 20);
  const std::vector<std::int64_t> ranks(8, 2);  // 3^8 strategies, and with one row more 4^8
  many.mesh = ring_mesh(ranks, 8);
  for (int i = 0; i < 2; ++i) {
    many.operands[i].layout = default_layout(std::vector<Placement>(8, shard(i)));
  }
  CHECK(region_of(many, decide(many)).has_value());
  for (const Placement p : {partial(kSum), shard(1), shard(0)}) many.table.cells.push_back(p);
  CHECK(!region_of(many, decide(many)));
  // Where nothing moves, only what moves nothing is looked at.
  many.operands[1].layout = default_layout(std::vector<Placement>(8, shard(0)));
  many.operands[0].layout = default_layout(std::vector<Placement>(8, shard(1)));
  CHECK(region_of(many, decide(many)).has_value());
}
