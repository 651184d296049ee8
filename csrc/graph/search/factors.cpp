#include "graph/search/factors.h"

#include "graph/index.h"

namespace shardprop::graph {

Shape::Shape(std::vector<int> scope_in, const EliminationOrder& order)
    : scope(std::move(scope_in)), strides(scope.size()) {
  for (std::size_t i = scope.size(); i-- > 0;) {
    strides[i] = size;
    size *= order.live[at(scope[i])].size();
  }
}

std::size_t Shape::stride(int v) const {
  for (std::size_t i = 0; i < scope.size(); ++i) {
    if (scope[i] == v) return strides[i];
  }
  return 0;
}

std::size_t Shape::entry(const std::vector<std::size_t>& live) const {
  std::size_t entry = 0;
  for (std::size_t i = 0; i < scope.size(); ++i) entry += strides[i] * live[at(scope[i])];
  return entry;
}

Odometer::Odometer(const std::vector<int>& scope, const EliminationOrder& order,
                   const std::vector<const Shape*>& shapes)
    : digits_(scope.size(), 0), strides_(scope.size()), offsets_(shapes.size(), 0) {
  for (std::size_t d = 0; d < scope.size(); ++d) {
    sizes_.push_back(order.live[at(scope[d])].size());
    for (const Shape* shape : shapes) strides_[d].push_back(shape->stride(scope[d]));
  }
}

void Odometer::next() {
  for (std::size_t d = digits_.size(); d-- > 0;) {
    const bool carry = ++digits_[d] == sizes_[d];
    for (std::size_t s = 0; s < offsets_.size(); ++s) {
      if (carry) {
        offsets_[s] -= strides_[d][s] * (sizes_[d] - 1);
      } else {
        offsets_[s] += strides_[d][s];
      }
    }
    if (!carry) return;
    digits_[d] = 0;
  }
}

StartingTables starting_tables(const Model& model, const EliminationOrder& order) {
  StartingTables out;
  out.unary.resize(at(model.variables()));
  for (int v = 0; v < model.variables(); ++v) {
    for (const int l : order.live[at(v)]) {
      out.unary[at(v)].push_back(model.unary[at(model.first[at(v)] + l)]);
    }
  }
  for (const Link& link : model.links) {
    const Matrix& matrix = model.matrices[at(link.matrix)];
    const auto &us = order.live[at(link.u)], &vs = order.live[at(link.v)];
    if (us.size() == 1) {
      for (std::size_t j = 0; j < vs.size(); ++j) {
        out.unary[at(link.v)][j] += matrix.at(link.rows[at(us[0])], link.columns[at(vs[j])]);
      }
    } else if (vs.size() == 1) {
      for (std::size_t i = 0; i < us.size(); ++i) {
        out.unary[at(link.u)][i] += matrix.at(link.rows[at(us[i])], link.columns[at(vs[0])]);
      }
    } else {
      PairTable pair{Shape({link.u, link.v}, order), {}};
      pair.prices.reserve(pair.shape.size);
      for (const int l : us) {
        for (const int k : vs) {
          pair.prices.push_back(matrix.at(link.rows[at(l)], link.columns[at(k)]));
        }
      }
      out.pairs.push_back(std::move(pair));
    }
  }
  for (int v = 0; v < model.variables(); ++v) {
    if (order.live[at(v)].size() == 1) out.constant += out.unary[at(v)][0];
  }
  return out;
}

}  // namespace shardprop::graph
