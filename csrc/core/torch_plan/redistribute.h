// Redistribution under policy "torch": which planner torch would use, its plan, and its price.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layout/layout.h"
#include "layout/mesh.h"
#include "torch_plan/graph_search.h"

namespace shardprop {

// What differs between the versions of torch and Python that we stand in for.
struct Dialect {
  bool zero_fill_partial = false;  // torch 2.15: Shard -> Partial(sum) where the goal asks for it
  bool compensated_sum = false;    // Python 3.12: the built-in sum of floats is compensated
};

// The part of a tensor's metadata that prices and plans depend on.
struct TensorInfo {
  std::vector<std::int64_t> shape;
  std::int64_t itemsize = 0;
  // One bit per tensor dim whose size is an expression in the caller: `shape` has what it is now.
  std::uint32_t symbolic = 0;

  [[nodiscard]] double bytes() const;
  [[nodiscard]] bool is_symbolic(int tensor_dim) const { return symbolic >> tensor_dim & 1u; }
};

// One planner of torch: it belongs to a mesh and a tensor metadata, and remembers the reduce ops
// and strided shards of every plan it made (so its answers depend on its history: a fresh one is
// ours to make for every decision). `op_hashes[op]` is Python's hash of the name of a reduce op.
class GraphPlanner {
 public:
  GraphPlanner(const Mesh& mesh, const TensorInfo& info, Dialect dialect,
               std::span<const std::uint64_t> op_hashes);

  // Layouts from `src` to `dst`, both included; empty if torch finds no path and asserts.
  [[nodiscard]] std::vector<Layout> path(const Layout& src, const Layout& dst);
  // Price of that path in microseconds; nullopt where there is none. Asked for many destinations of
  // one source, where `path` is made for one.
  [[nodiscard]] std::optional<double> price(const Layout& src, const Layout& dst);

 private:
  struct Kept {
    Layout src;
    GraphSearch::Moves moves;
    std::unique_ptr<GraphSearch> search;
  };

  void remember(const Layout& src, const Layout& dst);
  [[nodiscard]] GraphSearch::Moves moves_to(const Layout& dst) const;
  GraphSearch& search(const Layout& src, const Layout& dst);

  const Mesh& mesh_;
  int tensor_dims_;
  double bytes_;
  Dialect dialect_;
  std::span<const std::uint64_t> op_hashes_;
  std::vector<Placement> seen_partials_, seen_strided_;  // in the order in which they came
  std::vector<Placement> partials_, strided_;            // in the order of torch's sets
  std::vector<Kept> searches_;
};

struct Move {
  int mesh_dim;
  Placement from, to;
  // Of the tensor that this mesh dim cuts: its shape at each coordinate asked for, one after
  // another.
  std::vector<std::int64_t> logical_shapes;
};

enum class PlanStatus {
  kFound,
  kUnreachable,   // torch raises AssertionError
  kNotDecodable,  // strided shards that stand for no order, beside an opaque placement
};

struct Plan {
  PlanStatus status = PlanStatus::kFound;
  bool by_graph = false;
  std::vector<Move> moves;
};

// torch's _gen_transform_infos with a fresh planner. `coordinates` in the mesh, one after another:
// this rank's, or those of all ranks that one process stands for.
[[nodiscard]] Plan plan_redistribute(const Layout& src, const Layout& dst, const Mesh& mesh,
                                     const TensorInfo& info,
                                     std::span<const std::int64_t> coordinates, bool force_graph,
                                     Dialect dialect, std::span<const std::uint64_t> op_hashes);

// Does torch plan this pair on its graph? (It then also depends on the planner's history.)
[[nodiscard]] bool needs_graph(const Layout& src, const Layout& dst, bool force_graph);

// What redistribute_cost answers before any plan is made; nullopt where a plan must be priced.
// `member`: is this rank in the mesh.
[[nodiscard]] std::optional<double> cost_without_plan(const Layout& src, const Layout& dst,
                                                      bool member);

}  // namespace shardprop
