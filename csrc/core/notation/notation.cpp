#include "notation/notation.h"

#include <algorithm>
#include <array>

#include "notation/notation_names.h"
#include "notation/notation_scanner.h"

namespace shardprop {
namespace {

// Reads a rule from left to right, by the grammar of docs/notation.md: a function per line of it.
class Parser {
 public:
  explicit Parser(std::string_view text) : scan_(text) {}

  Pattern rule() {
    pattern_.operands = operands();
    if (!scan_.take("->")) scan_.expected(after_term("\"->\""));
    is_right_ = true;
    pattern_.outputs = operands();
    while (scan_.take(";")) row();
    if (!scan_.at_end()) scan_.expected(after_term(pattern_.rows.empty() ? "\";\"" : ""));
    check_factors();
    pattern_.needs_outputs = needs_outputs();
    pattern_.compares_sizes = pattern_.needs_outputs || compares_sizes();
    return std::move(pattern_);
  }

 private:
  // What may come where a term could go on as well.
  std::string after_term(const std::string& what) const {
    if (!pattern_.rows.empty()) return "\",\", \";\" or the end of the rule";
    return "a dim, \",\" or " + what + (is_right_ ? " (rows written out)" : "");
  }

  std::vector<Term> operands() {
    std::vector<Term> terms;
    do terms.push_back(operand());
    while (scan_.take(","));
    return terms;
  }

  Term operand() {
    Term term;
    if (scan_.take("_")) {
      term.is_any = true;
      return term;
    }
    term.is_list = scan_.take("[");
    term.mark = mark();
    while (std::optional<Dim> next = dim(term)) term.dims.push_back(std::move(*next));
    if (term.is_list && !scan_.take("]")) scan_.expected("a dim or \"]\"");
    return term;
  }

  Mark mark() {
    const std::size_t start = scan_.position();
    const Mark mark = scan_.take("+")   ? Mark::kAdditive
                      : scan_.take("*") ? Mark::kLinear
                                        : Mark::kNone;
    if (mark != Mark::kNone && is_right_) {
      throw NotationError("Expected marks on operands only, got one on an output.", start);
    }
    return mark;
  }

  std::optional<Dim> dim(const Term& term) {
    Dim dim;
    const std::size_t start = scan_.position();
    if (scan_.take("(")) {
      dim.kind = DimKind::kMerged;
      do dim.factors.push_back(factor(term, dim));
      while (!scan_.take(")"));
      return dim;
    }
    if (scan_.take("...")) {
      dim.kind = DimKind::kFactor;
      dim.factors = {mention("...", start, term, dim)};
      marks(dim.factors[0]);
      return dim;
    }
    if (is_name_start(scan_.peek())) {
      dim.kind = DimKind::kFactor;
      dim.factors = {factor(term, dim)};
      return dim;
    }
    if (!is_digit(scan_.peek())) {
      refuse_apart();
      return std::nullopt;
    }
    if (scan_.number() != 1) {
      throw NotationError("Expected a dim of size 1, the only number that a dim may be, got \"" +
                              scan_.since(start) + "\".",
                          start);
    }
    dim.place = place();
    return dim;
  }

  // A mark before the name that it is meant for would be taken for one of the name before it.
  void refuse_apart() {
    const char next = scan_.peek();
    if (std::string_view("!:{@#").find(next) == std::string_view::npos) return;
    const std::string mark = std::string("\"") + next + '"';
    throw NotationError(
        "Expected " + mark + " right after the name that it belongs to, got it apart.",
        scan_.position());
  }

  int factor(const Term& term, Dim& dim) {
    const std::size_t start = scan_.position();
    if (!is_name_start(scan_.peek())) {
      scan_.expected(dim.factors.empty() ? "the name of a factor"
                                         : "the name of a factor or \")\"");
    }
    const std::string name = scan_.name();
    const int index = mention(name, start, term, dim);
    const std::size_t at = scan_.position_close();
    const Place where = place();
    if (dim.kind == DimKind::kMerged && where.kind != PlaceKind::kInOrder) {
      throw NotationError("Expected no \"@\" or \"#\" within parentheses, got one.", at);
    }
    dim.place = where;
    marks(index);
    return index;
  }

  // The factor's index. A factor is one dim of a tensor, or one stretch of dims.
  int mention(const std::string& name, std::size_t start, const Term& term, const Dim& dim) {
    const auto found = std::find_if(pattern_.factors.begin(), pattern_.factors.end(),
                                    [&](const Factor& known) { return known.name == name; });
    const int index = static_cast<int>(found - pattern_.factors.begin());
    if (term.mentions(index) || std::count(dim.factors.begin(), dim.factors.end(), index) > 0) {
      throw NotationError("Expected \"" + name + "\" once in an operand, got it twice.", start);
    }
    if (found == pattern_.factors.end()) {
      pattern_.factors.push_back({name, false, std::nullopt, {}, false, false});
      mentioned_at_.push_back(start);
    }
    Factor& factor = pattern_.factors[index];
    (is_right_ ? factor.on_right : factor.on_left) = true;
    return index;
  }

  Place place() {
    Place place;
    if (scan_.take_close("@")) {
      place.kind = PlaceKind::kNamed;
    } else if (scan_.take_close("#")) {
      place.kind = PlaceKind::kCounted;
    } else {
      return place;
    }
    if (!is_argument_start(scan_.peek_close())) scan_.expected_close("the name of an argument");
    const std::string name = scan_.argument();
    auto& known = pattern_.arguments;
    const auto found = std::find(known.begin(), known.end(), name);
    place.argument = static_cast<int>(found - known.begin());
    if (found == known.end()) known.push_back(name);
    return place;
  }

  void marks(int index) {
    if (scan_.take_close("!")) pattern_.factors[index].whole = true;
    if (scan_.take_close(":")) {
      const std::size_t start = scan_.position_close();
      const std::uint16_t op = reduce_op();
      auto& known = pattern_.factors[index].reduce;
      if (known && *known != op) {
        throw NotationError("Expected one reduce op for \"" + pattern_.factors[index].name +
                                "\", got " + std::string(kReduceNames[op]) + " after " +
                                std::string(kReduceNames[*known]) + ".",
                            start);
      }
      known = op;
      reduced_at_.resize(pattern_.factors.size());
      reduced_at_[index] = start;
    }
    if (!scan_.take_close("{")) return;
    do constrain(pattern_.factors[index].constraints);
    while (scan_.take(","));
    if (!scan_.take("}")) scan_.expected("\",\" or \"}\"");
  }

  std::uint16_t reduce_op() {
    const std::size_t start = scan_.position_close();
    const std::string name = is_name_start(scan_.peek_close()) ? scan_.name() : "";
    const auto* found = std::find(kReduceNames.begin(), kReduceNames.end(), name);
    if (found == kReduceNames.end())
      scan_.expected_at(start, "a reduce op (" + reduce_names() + ")");
    return static_cast<std::uint16_t>(found - kReduceNames.begin());
  }

  void constrain(FactorConstraints& constraints) {
    const std::size_t start = scan_.position();
    const std::string name = is_name_start(scan_.peek()) ? scan_.name() : "";
    if (name == "even") {
      constraints.even = true;
    } else if (name == "same") {
      constraints.same = true;
    } else if (name == "min" || name == "multiple") {
      std::int64_t& known = name == "min" ? constraints.min : constraints.multiple;
      const std::int64_t asked = asked_number();
      if (known != (name == "min" ? 0 : 1) && known != asked) {
        throw NotationError("Expected one \"" + name + "\" for a factor, got " +
                                std::to_string(asked) + " after " + std::to_string(known) + ".",
                            start);
      }
      known = asked;
    } else {
      scan_.expected_at(start, "\"even\", \"same\", \"min=\" or \"multiple=\"");
    }
  }

  std::int64_t asked_number() {
    if (!scan_.take("=")) scan_.expected("\"=\" and a number");
    const std::size_t start = scan_.position();
    if (!is_digit(scan_.peek())) scan_.expected("a number");
    const std::int64_t number = scan_.number();
    if (number < 1) throw NotationError("Expected a number of 1 or more, got 0.", start);
    return number;
  }

  void row() {
    WrittenRow row;
    row.operands = placements(pattern_.operands, false);
    if (!scan_.take("->")) scan_.expected("\",\" or \"->\"");
    row.outputs = placements(pattern_.outputs, true);
    pattern_.rows.push_back(std::move(row));
  }

  std::vector<Placement> placements(const std::vector<Term>& terms, bool are_outputs) {
    const std::size_t start = scan_.position();
    std::vector<Placement> cells;
    const char next = scan_.peek();
    if (next != '\0' && next != ';' && !scan_.sees("->")) {
      do cells.push_back(placement(are_outputs));
      while (scan_.take(","));
    }
    if (cells.size() != terms.size() && !(cells.empty() && may_be_nothing(terms))) {
      throw NotationError("Expected " + std::to_string(terms.size()) +
                              (terms.size() == 1 ? " placement" : " placements") +
                              (are_outputs ? ", one per output" : ", one per operand") + ", got " +
                              std::to_string(cells.size()) + ".",
                          start);
    }
    return cells;
  }

  Placement placement(bool is_output) {
    if (scan_.take("R")) return replicate();
    if (scan_.take("S(")) {
      if (!is_digit(scan_.peek())) scan_.expected("a tensor dim");
      const std::size_t start = scan_.position();
      const std::int64_t dim = scan_.number();
      if (dim >= kMaxNotationDims) {
        throw NotationError("Expected a tensor dim below " + std::to_string(kMaxNotationDims) +
                                ", got " + std::to_string(dim) + ".",
                            start);
      }
      if (!scan_.take(")")) scan_.expected("\")\"");
      return placeholder(static_cast<int>(dim));
    }
    if (scan_.take("P")) {
      if (!scan_.take("(")) return partial(kSum);
      (void)scan_.peek();
      const Placement cell = partial(reduce_op());
      if (!scan_.take(")")) scan_.expected("\")\"");
      return cell;
    }
    if (is_output && !scan_.sees("->") && scan_.take("-")) return absent();
    scan_.expected(is_output ? "R, S(dim), P(op) or -" : "R, S(dim) or P(op)");
  }

  // What can only be told once the whole rule is read.
  void check_factors() {
    reduced_at_.resize(pattern_.factors.size());
    for (std::size_t f = 0; f < pattern_.factors.size(); ++f) {
      const Factor& factor = pattern_.factors[f];
      if (factor.is_rest() && !factor.on_left) {
        throw NotationError("Expected \"...\" in an operand as well, got it in outputs only.",
                            mentioned_at_[f]);
      }
      if (!factor.reduce) continue;
      const std::size_t at = reduced_at_[f];
      if (factor.whole) {
        throw NotationError("Expected no reduce op for \"" + factor.name +
                                "\", which stays whole (\"!\"), got one.",
                            at);
      }
      const bool in_all =
          !factor.on_left ||
          std::all_of(pattern_.outputs.begin(), pattern_.outputs.end(), [&](const Term& term) {
            return term.is_any || term.mentions(static_cast<int>(f));
          });
      if (in_all) {
        throw NotationError(
            "Expected a reduce op only for a factor that an operand has and an output "
            "has not, got one for \"" +
                factor.name + "\".",
            at);
      }
    }
  }

  // A size is known on the left if the factor is a dim of its own there, or if it is the only one
  // of a merged dim that is not.
  bool needs_outputs() const {
    std::vector<bool> known(pattern_.factors.size());
    for (const Term& term : pattern_.operands) {
      for (const Dim& dim : term.dims) {
        if (dim.kind == DimKind::kFactor) known[dim.factors[0]] = true;
      }
    }
    const auto count_unknown = [&known](const Dim& dim) {
      return std::count_if(dim.factors.begin(), dim.factors.end(),
                           [&known](int factor) { return !known[factor]; });
    };
    std::vector<bool> inferred = known;
    for (const Term& term : pattern_.operands) {
      for (const Dim& dim : term.dims) {
        if (dim.kind != DimKind::kMerged) continue;
        if (count_unknown(dim) > 1) return true;
        for (const int factor : dim.factors) inferred[factor] = true;
      }
    }
    known = inferred;
    for (const Term& term : pattern_.outputs) {
      if (term.is_list) return true;
      for (const Dim& dim : term.dims) {
        if (dim.kind == DimKind::kMerged && count_unknown(dim) > 0) return true;
      }
    }
    return false;
  }

  bool compares_sizes() const {
    std::vector<bool> is_seen(pattern_.factors.size());
    for (const Term& term : pattern_.operands) {
      for (const Dim& dim : term.dims) {
        if (dim.kind != DimKind::kFactor) return true;
        const int factor = dim.factors[0];
        if (!pattern_.factors[factor].whole && (is_seen[factor] || term.is_list)) return true;
        is_seen[factor] = true;
      }
    }
    return std::any_of(pattern_.outputs.begin(), pattern_.outputs.end(), [](const Term& term) {
      return std::any_of(term.dims.begin(), term.dims.end(),
                         [](const Dim& dim) { return dim.kind == DimKind::kMerged; });
    });
  }

  Scanner scan_;
  Pattern pattern_;
  bool is_right_ = false;
  std::vector<std::size_t> mentioned_at_, reduced_at_;  // per factor, for messages
};

}  // namespace

bool Term::mentions(int factor) const {
  return std::any_of(dims.begin(), dims.end(), [factor](const Dim& dim) {
    return std::find(dim.factors.begin(), dim.factors.end(), factor) != dim.factors.end();
  });
}

Pattern parse_notation(std::string_view text) { return Parser(text).rule(); }

std::optional<int> rank_of(const Pattern& pattern, const Term& term) {
  const auto is_one = [&](const Dim& dim) {
    const bool is_rest = dim.kind == DimKind::kFactor && pattern.factors[dim.factors[0]].is_rest();
    return !is_rest && dim.place.kind == PlaceKind::kInOrder;
  };
  if (term.is_any || !std::all_of(term.dims.begin(), term.dims.end(), is_one)) return std::nullopt;
  return static_cast<int>(term.dims.size());
}

}  // namespace shardprop
