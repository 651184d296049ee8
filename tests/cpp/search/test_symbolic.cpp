#include "check.h"
#include "random_problem.h"
#include "search/guards.h"
#include "search/pricer.h"
#include "search/search.h"
#include "search/symbolic.h"

using namespace shardprop;

namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLargest = 1 << 30;

struct Range {
  std::int64_t least = 0, most = kUnbounded;
};

// Answers by the sizes as they are, as torch does for sizes it has hints for.
struct Answers {
  const Problem* problem = nullptr;
  Range range;
  int asked = 0;
  SizeOracle oracle;

  explicit Answers(const Problem& asks) : problem(&asks) {
    oracle.holds = [this](int operand, int tensor_dim, std::int64_t pieces) {
      ++asked;
      return problem->operands[operand].info.shape[tensor_dim] >= pieces;
    };
    oracle.cheapest = [](std::span<const Strategy> near) {
      std::size_t best = 0;
      for (std::size_t i = 1; i < near.size(); ++i) {
        if (near[i].cost < near[best].cost) best = i;
      }
      return best;
    };
    oracle.keep_product = [this](int, std::optional<std::int64_t> least,
                                 std::optional<std::int64_t> most) {
      range = {least.value_or(range.least), most.value_or(range.most)};
    };
    oracle.keep_cheapest = [](const Strategy&, std::span<const Strategy>,
                              std::span<const Strategy>) {};
  }
};

Decision decide_with(Problem& problem, Answers& answers) {
  problem.sizes = &answers.oracle;
  return decide_symbolic(problem);
}

// A random problem without graph plans; tensor dim 0 of every operand that has one is symbolic.
Problem random_symbolic(testing::RandomProblem& random) {
  for (;;) {
    Problem problem = random.next();
    problem.op_hashes = testing::kOpHashes;
    if (depends_on_history(problem)) continue;
    bool any = false;
    for (Operand& operand : problem.operands) {
      if (operand.info.shape.empty() || operand.info.shape[0] < 2) continue;
      operand.info.symbolic = 1;
      any = true;
    }
    if (any) return problem;
  }
}

// One size for all, so that they grow alike.
void resize(Problem& problem, std::int64_t size) {
  for (Operand& operand : problem.operands) {
    if (operand.info.symbolic != 0) operand.info.shape[0] = size;
  }
}

// The number of tokens is an expression.
Problem gather_one(std::int64_t tokens) {
  Problem problem = testing::gather_one(tokens);
  problem.op_hashes = testing::kOpHashes;
  problem.operands[0].info.symbolic = 1;
  return problem;
}

}  // namespace

TEST(with_sizes_as_they_are_the_decision_is_the_concrete_one) {
  testing::RandomProblem random(20261121);
  for (int i = 0; i < 5000; ++i) {
    Problem problem = random_symbolic(random);
    Answers answers(problem);
    const Decision symbolic = decide_with(problem, answers);
    Problem concrete = problem;
    concrete.sizes = nullptr;
    for (Operand& operand : concrete.operands) operand.info.symbolic = 0;
    const Decision expected = decide(concrete);
    CHECK_EQ(symbolic.verdict, expected.verdict);
    if (expected.verdict != Verdict::kFound) continue;
    CHECK(symbolic.rows == expected.rows);
    CHECK_EQ(symbolic.cost, expected.cost);
    CHECK(symbolic.operand_costs == expected.operand_costs);
  }
}

TEST(each_bound_is_asked_once) {
  Problem problem = gather_one(64);
  Answers answers(problem);
  CHECK_EQ(decide_with(problem, answers).verdict, Verdict::kFound);
  CHECK_EQ(answers.asked, 1);
}

TEST(the_guarded_range_ends_where_the_decision_turns) {
  Problem few = gather_one(64);
  Answers small(few);
  const Decision gathers_tokens = decide_with(few, small);
  CHECK_EQ(gathers_tokens.rows[0], 2);
  CHECK_EQ(small.range.least, 0);
  // Equal prices at as many tokens as the weight has rows: there both are kept.
  CHECK_EQ(small.range.most, 1024);

  Problem many = gather_one(4096);
  Answers large(many);
  const Decision gathers_weight = decide_with(many, large);
  CHECK_EQ(gathers_weight.rows[0], 1);
  CHECK_EQ(large.range.least, 1024);
  CHECK_EQ(large.range.most, kUnbounded);
}

TEST(within_the_guarded_range_the_decision_stays_and_beyond_it_does_not) {
  testing::RandomProblem random(7);
  int ended = 0;
  for (int i = 0; i < 5000; ++i) {
    Problem problem = random_symbolic(random);
    resize(problem, 64);
    Answers answers(problem);
    const Decision now = decide_with(problem, answers);
    if (now.verdict != Verdict::kFound) continue;
    // What torch would choose for another size, if shards fit there that fit now.
    Problem then = problem;
    const auto choose_at = [&](std::int64_t size) {
      resize(then, size);
      Answers unguarded(problem);
      return decide_with(then, unguarded);
    };
    const auto [least, most] = answers.range;
    for (const std::int64_t size : {least, most, std::int64_t{2}, std::int64_t{10000}}) {
      if (size < std::max<std::int64_t>(least, 1) || size > std::min(most, kLargest)) continue;
      const Decision chosen = choose_at(size);
      // Prices that agree but for rounding, here as there, are for the caller to compare.
      HistoryPricer pricer(then);
      CHECK(chosen.rows == now.rows ||
            is_near(price_strategy(then, pricer, now.rows)->cost, chosen.cost));
    }
    for (const std::int64_t size : {least - 1, most == kUnbounded ? 0 : most + 1}) {
      if (size < 1 || size > kLargest) continue;
      ++ended;
      CHECK(!(choose_at(size).rows == now.rows));
    }
  }
  CHECK(ended > 200);
}
