#include "notation/notation_layout.h"

#include <algorithm>
#include <numeric>

#include "notation/notation_names.h"

namespace shardprop {
namespace {

const Term& term_of(const Pattern& pattern, int term) {
  const int operands = static_cast<int>(pattern.operands.size());
  return term < operands ? pattern.operands[term] : pattern.outputs[term - operands];
}

[[noreturn]] void fail(const FittedTensor& tensor, const std::string& message) {
  throw FitError(message, tensor.term, tensor.element);
}

std::string dims_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " dim" : " dims");
}

// All dims: nothing says which.
bool names_all(const NotedArgument& argument) {
  return argument.kind != NotedArgument::Kind::kNumber && argument.numbers.empty();
}

}  // namespace

std::size_t AxisLayout::Laid::dims() const {
  return std::accumulate(
      named.begin(), named.end(), in_order.size(),
      [](std::size_t sum, const Named& some) { return sum + some.pieces.size(); });
}

AxisLayout::AxisLayout(const Pattern& pattern, const NotedCall& call,
                       std::span<const FittedTensor> operands)
    : pattern_(pattern), call_(call), counts_(pattern.factors.size(), 1) {
  // A factor that is placed somewhere is as many dims as its place says; others are one.
  for (const auto* terms : {&pattern.operands, &pattern.outputs}) {
    for (const Term& term : *terms) {
      for (const Dim& dim : term.dims) {
        if (dim.place.kind != PlaceKind::kInOrder && dim.kind == DimKind::kFactor) {
          counts_[dim.factors[0]] = 0;
        }
      }
    }
  }
  for (const FittedTensor& tensor : operands) {
    for (const Dim& dim : pattern.operands[tensor.term].dims) {
      if (dim.kind != DimKind::kFactor || dim.place.kind == PlaceKind::kInOrder) continue;
      const int rank = static_cast<int>(tensor.shape->size());
      count_named(dim.factors[0], dim.place, rank, tensor);
    }
  }
  count_right_only();
  for (std::size_t f = 0; f < counts_.size(); ++f) {
    if (!pattern.factors[f].is_rest()) continue;
    counts_[f] = 0;
    for (const FittedTensor& tensor : operands) {
      const Term& term = pattern.operands[tensor.term];
      if (!term.mentions(static_cast<int>(f))) continue;
      counts_[f] = std::max(counts_[f], rest_of(term, static_cast<int>(tensor.shape->size())));
    }
  }
  first_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), first_.begin(), 0);
}

void AxisLayout::count_named(int factor, const Place& place, int rank, const FittedTensor& tensor) {
  if (place.kind == PlaceKind::kCounted) return set_count(factor, counted(place), tensor);
  const NotedArgument& argument = call_.arguments[place.argument];
  // torch takes 0 and -1 for a tensor without dims, and they name none.
  if (rank == 0) return;
  set_count(factor, names_all(argument) ? rank : static_cast<int>(argument.numbers.size()), tensor);
}

void AxisLayout::set_count(int factor, int count, const FittedTensor& tensor) {
  if (counts_[factor] != 0 && counts_[factor] != count) {
    fail(tensor, "Expected \"" + pattern_.factors[factor].name + "\" to be " +
                     dims_text(counts_[factor]) + " as before, got " + std::to_string(count) + ".");
  }
  counts_[factor] = count;
}

int AxisLayout::counted(const Place& place) const {
  const NotedArgument& argument = call_.arguments[place.argument];
  if (argument.kind == NotedArgument::Kind::kNumbers) {
    return static_cast<int>(std::min<std::size_t>(argument.numbers.size(), kMaxNotationDims + 1));
  }
  if (argument.kind == NotedArgument::Kind::kNone) {
    throw NotationError("argument \"" + pattern_.arguments[place.argument] +
                        "\": Expected a number of dims or a list with an element for each, got "
                        "None.");
  }
  const std::int64_t count = argument.numbers[0];
  if (count == kUnread) throw NeedsSize("number of dims");
  if (count < 0 || count > kMaxNotationDims) {
    throw NotationError("argument \"" + pattern_.arguments[place.argument] +
                        "\": Expected a number of dims from 0 to " +
                        std::to_string(kMaxNotationDims) + ", got " + std::to_string(count) + ".");
  }
  return static_cast<int>(count);
}

// Factors that no operand has are whole, but have their dims.
void AxisLayout::count_right_only() {
  for (std::size_t i = 0; i < pattern_.outputs.size(); ++i) {
    for (const Dim& dim : pattern_.outputs[i].dims) {
      if (dim.kind != DimKind::kFactor || dim.place.kind == PlaceKind::kInOrder) continue;
      const int factor = dim.factors[0];
      if (pattern_.factors[factor].on_left) continue;
      FittedTensor output;
      output.term = static_cast<int>(pattern_.operands.size() + i);
      if (dim.place.kind == PlaceKind::kCounted) {
        set_count(factor, counted(dim.place), output);
        continue;
      }
      const NotedArgument& argument = call_.arguments[dim.place.argument];
      if (names_all(argument)) {
        fail(output, "Expected " + argument_text(dim.place.argument) + " to name the dims of \"" +
                         pattern_.factors[factor].name + "\", which no operand has, got none.");
      }
      set_count(factor, static_cast<int>(argument.numbers.size()), output);
    }
  }
}

// Dims of size 1 that an argument names: as many as the factor that it places, where it does.
int AxisLayout::named_ones(const Place& place, std::optional<int> rank) const {
  const NotedArgument& argument = call_.arguments[place.argument];
  if (rank && *rank == 0) return 0;
  if (rank && names_all(argument)) return *rank;
  if (!names_all(argument) && rank) return static_cast<int>(argument.numbers.size());
  for (const Term& term : pattern_.operands) {
    for (const Dim& dim : term.dims) {
      if (dim.kind == DimKind::kFactor && dim.place == place) return counts_[dim.factors[0]];
    }
  }
  return static_cast<int>(argument.numbers.size());
}

int AxisLayout::width(const Dim& dim, std::optional<int> rank) const {
  const bool is_named = dim.place.kind == PlaceKind::kNamed;
  if (dim.kind == DimKind::kMerged) return 1;
  if (dim.kind == DimKind::kFactor) return is_named && rank == 0 ? 0 : counts_[dim.factors[0]];
  if (is_named) return named_ones(dim.place, rank);
  return dim.place.kind == PlaceKind::kCounted ? counted(dim.place) : 1;
}

int AxisLayout::rest_of(const Term& term, int rank) const {
  for (const Dim& dim : term.dims) {
    const bool is_rest = dim.kind == DimKind::kFactor && pattern_.factors[dim.factors[0]].is_rest();
    if (!is_rest) rank -= width(dim, rank);
  }
  return std::max(rank, 0);
}

AxisLayout::Laid AxisLayout::lay(const Term& term, std::optional<int> rank, int rest) const {
  Laid laid;
  for (const Dim& dim : term.dims) {
    Pieces pieces;
    if (dim.kind == DimKind::kMerged) {
      pieces.emplace_back();
      for (const int factor : dim.factors) {
        for (int j = 0; j < counts_[factor]; ++j) pieces[0].push_back(first_[factor] + j);
      }
    } else if (dim.kind == DimKind::kFactor) {
      const int factor = dim.factors[0];
      const bool is_rest = pattern_.factors[factor].is_rest();
      const int count = is_rest ? rest : width(dim, rank);
      // Those of "..." are aligned from the right, as broadcasting does.
      const int skipped = is_rest ? counts_[factor] - count : 0;
      for (int j = 0; j < skipped; ++j) laid.lacking.push_back(first_[factor] + j);
      for (int j = 0; j < count; ++j) pieces.push_back({first_[factor] + skipped + j});
    } else {
      pieces.resize(width(dim, rank));
    }
    if (dim.place.kind == PlaceKind::kNamed) {
      laid.named.push_back({dim.place.argument, std::move(pieces)});
    } else {
      std::move(pieces.begin(), pieces.end(), std::back_inserter(laid.in_order));
    }
  }
  return laid;
}

// With keepdim, a factor whose dims are named leaves dims of size 1 in outputs without it.
void AxisLayout::keep_dims(const Term& term, Laid& laid) const {
  if (!call_.keepdim) return;
  const auto has_place = [&term](const Place& place) {
    return std::any_of(term.dims.begin(), term.dims.end(),
                       [&place](const Dim& dim) { return dim.place == place; });
  };
  std::vector<int> kept;
  for (const Term& operand : pattern_.operands) {
    for (const Dim& dim : operand.dims) {
      if (dim.kind != DimKind::kFactor || dim.place.kind != PlaceKind::kNamed) continue;
      const int factor = dim.factors[0];
      if (term.mentions(factor) || has_place(dim.place)) continue;
      if (std::count(kept.begin(), kept.end(), dim.place.argument) > 0) continue;
      kept.push_back(dim.place.argument);
      laid.named.push_back({dim.place.argument, Pieces(counts_[factor])});
    }
  }
}

std::string AxisLayout::argument_text(int argument) const {
  return "argument \"" + pattern_.arguments[argument] + "\"";
}

std::vector<int> AxisLayout::positions(const Named& named, int rank,
                                       const FittedTensor& tensor) const {
  const NotedArgument& argument = call_.arguments[named.argument];
  std::vector<int> found;
  if (names_all(argument)) {
    found.resize(rank);
    std::iota(found.begin(), found.end(), 0);
  }
  for (const std::int64_t number : argument.numbers) {
    if (number == kUnread) throw NeedsSize("dim");
    const int limit = std::max(rank, 1);
    if (number < -limit || number >= limit) {
      fail(tensor, "Expected " + argument_text(named.argument) + " to name a dim from " +
                       std::to_string(-limit) + " to " + std::to_string(limit - 1) + ", got " +
                       std::to_string(number) + ".");
    }
    if (rank > 0) found.push_back(static_cast<int>(number < 0 ? number + rank : number));
  }
  if (found.size() != named.pieces.size()) {
    fail(tensor, "Expected " + argument_text(named.argument) + " to name " +
                     dims_text(named.pieces.size()) + ", got " + std::to_string(found.size()) +
                     ".");
  }
  return found;
}

// Puts the named dims where they belong, and the others, in their order, into the gaps.
void AxisLayout::merge(Laid& laid, int rank, FittedTensor& tensor) const {
  tensor.dims.assign(rank, {});
  std::vector<bool> taken(rank, false);
  for (Named& named : laid.named) {
    const std::vector<int> places = positions(named, rank, tensor);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (taken[places[i]]) {
        fail(tensor, "Expected each dim to be named once, got dim " + std::to_string(places[i]) +
                         " again from " + argument_text(named.argument) + ".");
      }
      taken[places[i]] = true;
      tensor.dims[places[i]] = std::move(named.pieces[i]);
    }
  }
  auto next = laid.in_order.begin();
  for (int d = 0; d < rank; ++d) {
    if (!taken[d]) tensor.dims[d] = std::move(*next++);
  }
}

std::string AxisLayout::separated(const Term& term, int rank) const {
  if (term.dims.size() != 1 || term.dims[0].kind != DimKind::kFactor) return "";
  const std::string& name = pattern_.factors[term.dims[0].factors[0]].name;
  if (static_cast<int>(name.size()) != rank || name == "...") return "";
  std::string apart;
  for (const char letter : name) apart.append(apart.empty() ? "" : " ").append(1, letter);
  return " Names are separated by blanks: \"" + apart + "\".";
}

void AxisLayout::lay_out_operand(FittedTensor& tensor, std::vector<int>& lacking) const {
  const Term& term = term_of(pattern_, tensor.term);
  const int rank = static_cast<int>(tensor.shape->size());
  Laid laid = lay(term, rank, rest_of(term, rank));
  const int missing = static_cast<int>(laid.dims()) - rank;
  if (missing < 0 || missing > static_cast<int>(laid.in_order.size())) {
    fail(tensor, "Expected " + dims_text(laid.dims()) + ", got shape " + to_text(*tensor.shape) +
                     "." + separated(term, rank));
  }
  lacking = laid.lacking;
  for (int i = 0; i < missing; ++i) {
    lacking.insert(lacking.end(), laid.in_order[i].begin(), laid.in_order[i].end());
  }
  laid.in_order.erase(laid.in_order.begin(), laid.in_order.begin() + missing);
  merge(laid, rank, tensor);
}

void AxisLayout::lay_out_output(FittedTensor& tensor) const {
  const Term& term = term_of(pattern_, tensor.term);
  int rest = 0;
  for (std::size_t f = 0; f < counts_.size(); ++f) {
    if (pattern_.factors[f].is_rest()) rest = counts_[f];
  }
  Laid laid = lay(term, std::nullopt, rest);
  keep_dims(term, laid);
  const std::size_t rank = laid.dims();
  if (tensor.shape && tensor.shape->size() != rank) {
    fail(tensor, "Expected " + dims_text(rank) + ", got shape " + to_text(*tensor.shape) + ".");
  }
  if (rank > kMaxNotationDims) fail(tensor, "Expected at most 64 dims, got more.");
  merge(laid, static_cast<int>(rank), tensor);
}

std::vector<Axis> AxisLayout::axes() const {
  std::vector<Axis> axes;
  for (std::size_t f = 0; f < counts_.size(); ++f) {
    axes.insert(axes.end(), counts_[f], Axis{static_cast<int>(f), std::nullopt, false, -1});
  }
  return axes;
}

}  // namespace shardprop
