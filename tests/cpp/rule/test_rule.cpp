#include "check.h"
#include "rule/rule.h"

using namespace shardprop;

namespace {

std::string message_of(const RowTable& rule, std::vector<int> dims) {
  try {
    validate_rule(rule, dims);
  } catch (const RuleError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(a_placeholder_becomes_one_row_per_kind) {
  const RowTable rule{1, 1, {placeholder(0), placeholder(1), replicate(), replicate()}};
  const ShardKind kinds[] = {0, 4};
  const Expansion expansion = fill_placeholders(rule, kinds);
  CHECK_EQ(expansion.table.cells, (std::vector{shard(0), shard(1), strided_shard(0, 4),
                                               strided_shard(1, 4), replicate(), replicate()}));
  CHECK_EQ(expansion.source, (std::vector{0, 0, 1}));
}

TEST(a_placeholder_vanishes_without_sharded_inputs) {
  const RowTable rule{1, 1, {placeholder(0), placeholder(1)}};
  CHECK_EQ(fill_placeholders(rule, {}).table.rows(), 0);
}

TEST(the_replicate_row_comes_first_and_once) {
  const RowTable rule{2, 1, {shard(0), absent(), shard(0)}};
  const RowTable with = with_replicate_row(rule, {false, true}, false);
  CHECK_EQ(with.rows(), 2);
  CHECK_EQ(with.at(0, 0), replicate());
  CHECK_EQ(with.at(0, 1), absent());
  CHECK_EQ(with_replicate_row(with, {}, false).rows(), 2);
  CHECK_EQ(with_replicate_row(rule, {}, true).at(0, 1), absent());
  CHECK_EQ(with_replicate_row(rule, {}, false).at(0, 1), replicate());
}

TEST(malformed_rules_are_refused_by_position) {
  CHECK_EQ(
      message_of({1, 1, {shard(0), placeholder(2)}}, {2}),
      "row 0, operand 0: Expected a sharding of one of the operand's 2 tensor dims, got tensor "
      "dim 2.");
  CHECK_EQ(
      message_of({1, 1, {replicate(), partial(kFirstUnknownOp)}}, {2}),
      "row 0, operand 0: Expected a reduce op that torch's Partial knows, got an unknown one.");
  CHECK_EQ(message_of({1, 1, {replicate(), absent()}}, {2}),
           "row 0, operand 0: Expected a placement, got None.");
  CHECK_EQ(message_of({1, 1, {shard(5), shard(1)}}, {2}), "");  // outputs may have more dims
}
