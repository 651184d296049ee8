// A placement says how one mesh dim holds a tensor. In the core it is eight bytes that compare as
// one integer; nothing here knows the Python object it came from.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace shardprop {

enum class Kind : std::uint8_t {
  kReplicate,
  kShard,
  kStridedShard,
  kPartial,
  kOpaque,       // a Placement subclass that is none of the above: moved by nobody, equal to itself
  kAbsent,       // rules only: the output does not exist
  kPlaceholder,  // rules only: any kind of sharding of tensor dim `dim`
};

struct Placement {
  Kind kind = Kind::kReplicate;
  std::uint8_t dim = 0;        // tensor dim of a shard, strided shard or placeholder
  std::uint16_t identity = 0;  // not 0: an object of another class, by what it equals
  std::uint32_t value = 0;  // split factor; or reduce op and, above 16 bits, the Partial subclass

  friend bool operator==(const Placement& a, const Placement& b) { return a.bits() == b.bits(); }

  [[nodiscard]] std::uint64_t bits() const { return std::bit_cast<std::uint64_t>(*this); }

  [[nodiscard]] bool is_replicate() const { return kind == Kind::kReplicate; }
  // torch's is_shard(): a strided shard is NOT one (SEMANTICS of torch, not an oversight here).
  [[nodiscard]] bool is_shard() const { return kind == Kind::kShard; }
  [[nodiscard]] bool is_strided() const { return kind == Kind::kStridedShard; }
  [[nodiscard]] bool is_shard_like() const { return is_shard() || is_strided(); }
  [[nodiscard]] bool is_partial() const { return kind == Kind::kPartial; }
  [[nodiscard]] std::uint16_t reduce_op() const { return static_cast<std::uint16_t>(value); }
  [[nodiscard]] std::uint16_t partial_class() const {
    return static_cast<std::uint16_t>(value >> 16);
  }
};

static_assert(sizeof(Placement) == 8);

inline Placement replicate() { return {}; }
inline Placement shard(int dim) { return {Kind::kShard, static_cast<std::uint8_t>(dim), 0, 0}; }
inline Placement strided_shard(int dim, std::uint32_t split_factor) {
  return {Kind::kStridedShard, static_cast<std::uint8_t>(dim), 0, split_factor};
}
inline Placement partial(std::uint16_t reduce_op) { return {Kind::kPartial, 0, 0, reduce_op}; }
// Classes of partials. Of others than these, such as _MaskPartial, the core knows only that they
// are partials.
inline constexpr std::uint16_t kPlainClass = 0;
inline constexpr std::uint16_t kNormClass = 1;  // _NormPartial: root of the sum of powers
inline constexpr std::uint16_t kFirstOtherClass = 2;
// A Partial of a Python subclass: a partial for every price, equal only to what has the same
// identity.
inline Placement partial_of_class(std::uint16_t reduce_op, std::uint16_t class_id,
                                  std::uint16_t identity) {
  return {Kind::kPartial, 0, identity, (std::uint32_t{class_id} << 16) | reduce_op};
}
inline Placement opaque(std::uint16_t identity) { return {Kind::kOpaque, 0, identity, 0}; }
inline Placement absent() { return {Kind::kAbsent, 0, 0, 0}; }
inline Placement placeholder(int dim) {
  return {Kind::kPlaceholder, static_cast<std::uint8_t>(dim), 0, 0};
}

// Reduce ops that torch's Partial executes; others get ids above these.
enum ReduceOp : std::uint16_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kBand,
  kBor,
  kBxor,
  kFirstUnknownOp
};
// As torch calls them, in the order above.
inline constexpr std::array<const char*, kFirstUnknownOp> kReduceOpNames = {
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor"};

// May one tensor hold both kinds of Partial? torch allows sum with avg, of one class, and no other
// pair (expand_to_full_mesh_op_strategy, assert_no_mixed_partial_types). By `Placement::value`.
[[nodiscard]] inline bool may_mix(std::uint32_t a, std::uint32_t b) {
  if (a == b) return true;
  if ((a >> 16) != (b >> 16)) return false;
  const auto op_a = a & 0xffffu, op_b = b & 0xffffu;
  return (op_a == kSum && op_b == kAvg) || (op_a == kAvg && op_b == kSum);
}

// May two partials be reduced in any order, and at once? Those of a subclass only if they are
// equal.
[[nodiscard]] inline bool commute(Placement a, Placement b) {
  return a == b || (a.partial_class() == kPlainClass && may_mix(a.value, b.value));
}

// "R", "S(0)", "SS(0, 4)", "P(2)": for messages and tests.
[[nodiscard]] std::string to_string(Placement placement);

}  // namespace shardprop
