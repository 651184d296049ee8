// Dijkstra's algorithm over layouts with shard order, as torch's DTensorRedistributePlanner runs
// it: the same neighbours in the same order, ties broken by the order of the pushes.
//
// The search from one source does not depend on the goal, so it is kept and resumed: a second goal
// costs only the layouts that the first did not need.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "layout/flat_map.h"
#include "layout/layout.h"
#include "layout/mesh.h"
#include "torch_plan/graph_bound.h"

namespace shardprop {

// A plan among more than 32 different placements: beyond the five bits that a state has for each.
struct TooManyPlacements : std::length_error {
  using std::length_error::length_error;
};

class GraphSearch {
 public:
  struct Moves {
    std::vector<Placement> partials;  // Replicate may become these, in this order
    std::vector<Placement> strided;   // and these
    // Mesh dims (bits) on which a plain shard may become Partial(sum) by zero fill, for free: torch
    // 2.15, and only where that is the goal.
    std::uint8_t zero_fill = 0;

    friend bool operator==(const Moves&, const Moves&) = default;
  };

  // `bytes` of the global tensor. Throws TooManyPlacements.
  GraphSearch(const Mesh& mesh, int tensor_dims, double bytes, const Layout& source, Moves moves);

  // The same path for one goal only, visiting few layouts: a first search, guided by what is left
  // to pay at least, finds the price; a second, in torch's order, leaves out what cannot be within
  // it.
  [[nodiscard]] static std::vector<Layout> path(const Mesh& mesh, int tensor_dims, double bytes,
                                                const Layout& source, const Layout& goal,
                                                const Moves& moves);

  // The layouts from the source to `goal`, both included, along the cheapest path; empty if there
  // is no path.
  [[nodiscard]] std::vector<Layout> path_to(const Layout& goal);

  // Price in microseconds of the steps along that path as torch's redistribute_cost adds them up,
  // with its running bytes (which differ from those the search goes by); nullopt if there is no
  // path.
  [[nodiscard]] std::optional<double> price_to(const Layout& goal);

 private:
  using State = std::uint64_t;  // eight bits a mesh dim: code in the alphabet (5), position (3)

  struct Node {
    State state;
    double cost;
    std::uint32_t parent;
    bool settled;
  };
  struct Entry {
    double cost;
    std::uint32_t push;  // order of the push: the tie-break
    std::uint32_t node;
    bool operator>(const Entry& other) const {
      return cost != other.cost ? cost > other.cost : push > other.push;
    }
  };
  struct View;  // a state unpacked, with what its moves cost

  [[nodiscard]] int code_of(Placement placement) const;
  [[nodiscard]] bool pack(const Layout& layout, State& state) const;
  [[nodiscard]] Layout unpack(State state) const;
  [[nodiscard]] static int code_at(State state, int mesh_dim) {
    return static_cast<int>((state >> (8 * mesh_dim)) & 31);
  }
  [[nodiscard]] static State with(State state, int mesh_dim, int code, int position);

  // Prune by `bound`: leave out layouts that cannot be on a path of `limit` microseconds. `guided`:
  // settle by price so far plus bound.
  void aim(const GraphBound& bound, double limit, bool guided);
  [[nodiscard]] std::uint32_t bound_number(State state) const;

  // `left`: what the bound says is left to pay from `state`.
  void push(State state, double cost, double left, std::uint32_t parent);
  void expand(std::uint32_t node);
  std::uint32_t settle_until(State goal);
  // The nodes from the source to `goal` into trail_; empty if there is no path.
  void find_trail(const Layout& goal);

  Mesh mesh_;
  int tensor_dims_;
  double bytes_;
  Layout source_;
  Moves moves_;
  std::vector<Placement> alphabet_;
  std::vector<int> partial_codes_, strided_codes_;
  std::vector<Node> nodes_;
  std::vector<Entry> heap_;
  FlatMap index_;
  std::vector<std::uint32_t> trail_;
  std::uint32_t pushes_ = 0;
  const GraphBound* bound_ = nullptr;
  std::vector<std::uint32_t> bound_parts_;  // per mesh dim and code
  double limit_ = 0.0;
  bool guided_ = false;
};

}  // namespace shardprop
