// A pattern as text again.
#include "notation/notation.h"
#include "notation/notation_names.h"

namespace shardprop {
namespace {

class Writer {
 public:
  explicit Writer(const Pattern& pattern)
      : pattern_(pattern), is_written_(pattern.factors.size(), false) {}

  std::string text() {
    side(pattern_.operands);
    arrow();
    side(pattern_.outputs);
    for (const WrittenRow& row : pattern_.rows) {
      trim();
      text_ += "; ";
      placements(row.operands);
      arrow();
      placements(row.outputs);
    }
    trim();
    return std::move(text_);
  }

 private:
  void side(const std::vector<Term>& terms) {
    for (std::size_t i = 0; i < terms.size(); ++i) {
      if (i > 0) text_ += ", ";
      term(terms[i]);
    }
  }

  void arrow() {
    if (!text_.empty() && text_.back() != ' ') text_ += ' ';
    text_ += "-> ";
  }

  void trim() {
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
  }

  void term(const Term& term) {
    if (term.is_any) text_ += '_';
    if (term.is_list) text_ += '[';
    if (term.mark == Mark::kAdditive) text_ += '+';
    if (term.mark == Mark::kLinear) text_ += '*';
    for (std::size_t d = 0; d < term.dims.size(); ++d) {
      if (d > 0) text_ += ' ';
      dim(term.dims[d]);
    }
    if (term.is_list) text_ += ']';
  }

  void dim(const Dim& dim) {
    if (dim.kind == DimKind::kOne) text_ += '1';
    if (dim.kind == DimKind::kMerged) text_ += '(';
    for (std::size_t i = 0; i < dim.factors.size(); ++i) {
      if (i > 0) text_ += ' ';
      factor(dim.factors[i], dim.place);
    }
    if (dim.kind == DimKind::kMerged) text_ += ')';
    if (dim.kind == DimKind::kOne) place(dim.place);
  }

  // Marks and constraints stand at the first mention.
  void factor(int index, const Place& where) {
    const Factor& factor = pattern_.factors[index];
    text_ += factor.name;
    place(where);
    if (is_written_[index]) return;
    is_written_[index] = true;
    if (factor.whole) text_ += '!';
    if (factor.reduce) text_.append(":") += kReduceNames[*factor.reduce];
    write(factor.constraints);
  }

  void place(const Place& place) {
    if (place.kind == PlaceKind::kInOrder) return;
    text_ += place.kind == PlaceKind::kNamed ? '@' : '#';
    text_ += pattern_.arguments[place.argument];
  }

  void write(const FactorConstraints& constraints) {
    std::string list;
    const auto add = [&list](const std::string& one) { list += (list.empty() ? "" : ",") + one; };
    if (constraints.even) add("even");
    if (constraints.same) add("same");
    if (constraints.min > 0) add("min=" + std::to_string(constraints.min));
    if (constraints.multiple > 1) add("multiple=" + std::to_string(constraints.multiple));
    if (!list.empty()) text_ += '{' + list + '}';
  }

  void placements(const std::vector<Placement>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text_ += ", ";
      const Placement cell = cells[i];
      if (cell.kind == Kind::kAbsent) {
        text_ += '-';
      } else if (cell.is_partial()) {
        text_.append("P(").append(kReduceNames[cell.reduce_op()]) += ')';
      } else if (cell.kind == Kind::kPlaceholder) {
        text_ += "S(" + std::to_string(cell.dim) + ')';
      } else {
        text_ += 'R';
      }
    }
  }

  const Pattern& pattern_;
  std::vector<bool> is_written_;
  std::string text_;
};

}  // namespace

std::string to_string(const Pattern& pattern) { return Writer(pattern).text(); }

}  // namespace shardprop
