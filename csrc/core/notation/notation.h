// The compact notation for rules (docs/notation.md): text to a pattern as data, and back.
//
// "*m k, *k n -> m n" has two operands and one output, whose dims are mentions of three factors.
// What the pattern means for operands of given shapes is the subject of notation_fit.h and
// notation_rows.h; here nothing knows a size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layout/placement.h"

namespace shardprop {

// A rule that cannot be read, or that does not fit the call it is asked about.
struct NotationError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
  NotationError(const std::string& message, std::size_t character)
      : std::invalid_argument(message), position(character) {}

  std::optional<std::size_t> position;  // of the offending character in the text
};

// What the shards of a factor must be like for the factor to be cut.
struct FactorConstraints {
  bool even = false;          // equally many on every rank
  bool same = false;          // no operand broadcasts it or has fewer: else it is whole
  std::int64_t min = 0;       // at least so many on every rank
  std::int64_t multiple = 1;  // a multiple of so many on every rank
};

// A name; "..." is one as well, whose dims are counted by the operands' ranks.
struct Factor {
  std::string name;
  bool whole = false;
  std::optional<std::uint16_t> reduce;  // as written; a sum where nothing is
  FactorConstraints constraints;
  bool on_left = false, on_right = false;

  [[nodiscard]] bool is_rest() const { return name == "..."; }
  [[nodiscard]] std::uint16_t reduce_op() const { return reduce.value_or(kSum); }
};

// Where dims lie: in written order, at the dims that an argument names (@), or in written order and
// as many as an argument says (#).
enum class PlaceKind : std::uint8_t { kInOrder, kNamed, kCounted };
struct Place {
  PlaceKind kind = PlaceKind::kInOrder;
  int argument = -1;  // an index into Pattern::arguments

  friend bool operator==(const Place&, const Place&) = default;
};

// One dim of a term, or several where its factor has several.
enum class DimKind : std::uint8_t { kFactor, kMerged, kOne };
struct Dim {
  DimKind kind = DimKind::kOne;
  std::vector<int> factors;  // one, or those of a merged dim, outermost first
  Place place;
};

enum class Mark : std::uint8_t { kNone, kAdditive, kLinear };
struct Term {
  Mark mark = Mark::kNone;
  bool is_list = false;
  bool is_any = false;  // "_": whole, of any shape
  std::vector<Dim> dims;

  [[nodiscard]] bool mentions(int factor) const;
};

// A row written out: a placement per term, where kPlaceholder is a shard of any kind.
struct WrittenRow {
  std::vector<Placement> operands, outputs;
};

struct Pattern {
  std::vector<Term> operands, outputs;
  std::vector<Factor> factors;         // in order of their first mention
  std::vector<std::string> arguments;  // that places name, in order of their first mention
  std::vector<WrittenRow> rows;
  // The operands alone do not say all that is needed of the outputs: how long a list of them is,
  // or the sizes that a merged dim is made of.
  bool needs_outputs = false;
  // Sizes are looked at: a factor is in several operands, or in a merged dim. Only ranks,
  // otherwise.
  bool compares_sizes = false;
};

// A side without any text is one scalar tensor, or no tensor at all: the op knows which.
[[nodiscard]] inline bool may_be_nothing(const std::vector<Term>& terms) {
  return terms.size() == 1 && terms[0].dims.empty() && !terms[0].is_list && !terms[0].is_any &&
         terms[0].mark == Mark::kNone;
}

// How many dims the term's tensors have, broadcasting apart; nothing where the text does not tell.
[[nodiscard]] std::optional<int> rank_of(const Pattern& pattern, const Term& term);

// Throws NotationError with a position.
[[nodiscard]] Pattern parse_notation(std::string_view text);

// The pattern as normalised text: equal for patterns that were written differently but say the
// same in the same order. Parsing it gives the same pattern.
[[nodiscard]] std::string to_string(const Pattern& pattern);

}  // namespace shardprop
