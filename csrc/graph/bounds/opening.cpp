#include "graph/bounds/opening.h"

#include <algorithm>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

constexpr int kRepairs = 30;

std::vector<double> least_of_rows(const std::vector<double>& prices, int rows, int columns) {
  std::vector<double> out;
  for (int r = 0; r < rows; ++r) {
    const auto begin = prices.begin() + static_cast<std::ptrdiff_t>(r) * columns;
    out.push_back(columns == 0 ? kInfinity : *std::min_element(begin, begin + columns));
  }
  return out;
}

class Greedy {
 public:
  explicit Greedy(const Model& model) : model_(model) {
    for (const Matrix& matrix : model.matrices) {
      least_.push_back(least_of_rows(matrix.prices, matrix.rows, matrix.columns));
    }
  }

  std::vector<int> run(const Interrupt& interrupt) {
    Meter meter(interrupt);
    chosen_.assign(at(model_.variables()), 0);
    for (int v = 0; v < model_.variables(); ++v) {
      choose(v, false);
      (void)meter.stop_after(work(v));  // it may throw, but the time being over does not end this
    }
    for (int round = 0; round < kRepairs && !meter.stopped(); ++round) {
      bool changed = false;
      for (int v = 0; v < model_.variables(); ++v) {
        if (!clashes(v)) continue;
        changed |= choose(v, true);
        if (meter.stop_after(work(v))) break;
      }
      if (!changed) break;
    }
    return chosen_;
  }

 private:
  std::size_t work(int v) const {
    return at(model_.labels(v)) * (1 + model_.back[at(v)].size() + model_.ahead[at(v)].size());
  }

  double price(const Link& link) const {
    return model_.matrices[at(link.matrix)].at(link.rows[at(chosen_[at(link.u)])],
                                               link.columns[at(chosen_[at(link.v)])]);
  }

  bool clashes(int v) const {
    if (model_.unary[at(model_.first[at(v)] + chosen_[at(v)])] == kInfinity) return true;
    const auto forbidden = [this](int e) { return price(model_.links[at(e)]) == kInfinity; };
    const auto &back = model_.back[at(v)], &ahead = model_.ahead[at(v)];
    return std::any_of(back.begin(), back.end(), forbidden) ||
           std::any_of(ahead.begin(), ahead.end(), forbidden);
  }

  void add(std::size_t label, double price) {
    if (price == kInfinity) {
      ++clashes_[label];
    } else {
      prices_[label] += price;
    }
  }

  // `whole`: beside the choices of later neighbours, too. True if the choice is another one.
  bool choose(int v, bool whole) {
    const auto count = at(model_.labels(v));
    prices_.assign(count, 0.0);
    clashes_.assign(count, 0);
    for (std::size_t l = 0; l < count; ++l) add(l, model_.unary[at(model_.first[at(v)]) + l]);
    for (const int e : model_.back[at(v)]) {
      const Link& link = model_.links[at(e)];
      const Matrix& matrix = model_.matrices[at(link.matrix)];
      const int row = link.rows[at(chosen_[at(link.u)])];
      for (std::size_t l = 0; l < count; ++l) add(l, matrix.at(row, link.columns[l]));
    }
    for (const int e : model_.ahead[at(v)]) {
      const Link& link = model_.links[at(e)];
      const Matrix& matrix = model_.matrices[at(link.matrix)];
      const auto& least = least_[at(link.matrix)];
      const int column = link.columns[at(chosen_[at(link.v)])];
      for (std::size_t l = 0; l < count; ++l) {
        add(l, whole ? matrix.at(link.rows[l], column) : least[at(link.rows[l])]);
      }
    }
    std::size_t best = whole ? at(chosen_[at(v)]) : 0;
    for (std::size_t l = 0; l < count; ++l) {
      if (std::pair(clashes_[l], prices_[l]) < std::pair(clashes_[best], prices_[best])) best = l;
    }
    const bool changed = static_cast<int>(best) != chosen_[at(v)];
    chosen_[at(v)] = static_cast<int>(best);
    return changed;
  }

  const Model& model_;
  std::vector<std::vector<double>> least_;  // by matrix, by row
  std::vector<int> chosen_;
  std::vector<double> prices_;  // scratch
  std::vector<int> clashes_;
};

}  // namespace

double least_prices(const Model& model) {
  double sum = 0;
  for (int v = 0; v < model.variables(); ++v) {
    const auto begin = model.unary.begin() + model.first[at(v)];
    sum += *std::min_element(begin, model.unary.begin() + model.first[at(v) + 1]);
  }
  std::vector<double> least;
  for (const Matrix& matrix : model.matrices) {
    least.push_back(*std::min_element(matrix.prices.begin(), matrix.prices.end()));
  }
  for (const Link& link : model.links) sum += least[at(link.matrix)];
  return sum;
}

std::vector<int> greedy_choice(const Model& model, const Interrupt& interrupt) {
  return Greedy(model).run(interrupt);
}

}  // namespace shardprop::graph
