#include "graph/bounds/slacks.h"

#include <algorithm>

#include "graph/index.h"

namespace shardprop::graph {
namespace {

// Takes the least of `prices` off them and returns it.
double normalise(std::vector<double>& prices) {
  if (prices.empty()) return kInfinity;
  const double least = *std::min_element(prices.begin(), prices.end());
  if (least == kInfinity) return least;
  for (double& price : prices) price -= least;
  return least;
}

class Maker {
 public:
  Maker(const Model& model, const MessagePassing& passing,
        const std::vector<std::vector<int>>& live)
      : model_(model), passing_(passing), live_(live) {
    out_.own.resize(at(model.variables()));
    out_.constant = passing.constant;
  }

  Slacks make() {
    for (int v = 0; v < model_.variables(); ++v) gather(v);
    std::vector<std::vector<double>> shared;  // what each link back gets of its later end
    for (int v = 0; v < model_.variables(); ++v) {
      auto& own = out_.own[at(v)];
      out_.constant += normalise(own);
      if (out_.constant == kInfinity) return std::move(out_);
      shared.push_back(own);
      const double share = passing_.share(v);
      const double kept = std::max(0.0, 1 - share * static_cast<double>(model_.back[at(v)].size()));
      for (double& price : own) price = scaled(kept, price);
      for (double& price : shared.back()) price = scaled(share, price);
    }
    for (std::size_t e = 0; e < model_.links.size(); ++e) {
      add_pair(static_cast<int>(e), shared[at(model_.links[e].v)]);
      if (out_.constant == kInfinity) return std::move(out_);
    }
    for (auto& own : out_.own) out_.constant += normalise(own);
    return std::move(out_);
  }

 private:
  static double scaled(double factor, double price) {
    return price == kInfinity ? kInfinity : factor * price;
  }

  // Prices and all messages into v.
  void gather(int v) {
    auto& own = out_.own[at(v)];
    for (const int l : live_[at(v)]) own.push_back(passing_.prices[at(model_.first[at(v)] + l)]);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto l = at(live_[at(v)][i]);
      for (const int e : model_.back[at(v)]) {
        own[i] += passing_.message_ahead(e)[model_.links[at(e)].columns[l]];
      }
      for (const int e : model_.ahead[at(v)]) {
        own[i] += passing_.message_back(e)[model_.links[at(e)].rows[l]];
      }
    }
  }

  void add_pair(int e, const std::vector<double>& shared) {
    const Link& link = model_.links[at(e)];
    const Matrix& matrix = model_.matrices[at(link.matrix)];
    const double *ahead = passing_.message_ahead(e), *back = passing_.message_back(e);
    Slacks::Pair pair{link.u, link.v, {}};
    pair.prices.reserve(live_[at(link.u)].size() * live_[at(link.v)].size());
    for (const int l : live_[at(link.u)]) {
      const std::int32_t r = link.rows[at(l)];
      for (std::size_t j = 0; j < shared.size(); ++j) {
        const std::int32_t c = link.columns[at(live_[at(link.v)][j])];
        // An infinite message says that its label has no partner left.
        const bool forbidden =
            matrix.at(r, c) == kInfinity || back[r] == kInfinity || ahead[c] == kInfinity;
        pair.prices.push_back(forbidden ? kInfinity
                                        : matrix.at(r, c) - back[r] - ahead[c] + shared[j]);
      }
    }
    out_.constant += normalise(pair.prices);
    if (out_.constant == kInfinity) return;
    const bool one_u = live_[at(link.u)].size() == 1, one_v = live_[at(link.v)].size() == 1;
    if (one_u || one_v) {
      auto& own = out_.own[at(one_u ? link.v : link.u)];
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += pair.prices[i];
    } else {
      out_.pairs.push_back(std::move(pair));
    }
  }

  const Model& model_;
  const MessagePassing& passing_;
  const std::vector<std::vector<int>>& live_;
  Slacks out_;
};

}  // namespace

std::size_t pairs_of_labels(const Model& model, const std::vector<std::vector<int>>& live) {
  std::size_t pairs = 0;
  for (const Link& link : model.links) pairs += live[at(link.u)].size() * live[at(link.v)].size();
  return pairs;
}

Slacks slacks(const Model& model, const MessagePassing& passing,
              const std::vector<std::vector<int>>& live) {
  return Maker(model, passing, live).make();
}

}  // namespace shardprop::graph
