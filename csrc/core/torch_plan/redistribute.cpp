#include "torch_plan/redistribute.h"

#include <algorithm>

#include "layout/set_order.h"
#include "torch_plan/greedy.h"
#include "torch_plan/transition.h"

namespace shardprop {
namespace {

std::vector<Placement> in_set_order(const std::vector<Placement>& seen, auto hash_of) {
  PySetOrder set;
  for (const Placement p : seen) set.insert(hash_of(p));
  std::vector<Placement> ordered;
  for (const int i : set.order()) ordered.push_back(seen[i]);
  return ordered;
}

bool add_if_new(std::vector<Placement>& seen, Placement placement) {
  if (std::find(seen.begin(), seen.end(), placement) != seen.end()) return false;
  seen.push_back(placement);
  return true;
}

int changed_mesh_dim(const Layout& from, const Layout& to) {
  int m = 0;
  while (m < from.ndim && from.placements[m] == to.placements[m]) ++m;
  return m;
}

// `shape` after `cut` at each of `coordinates`, one after another.
template <typename Cut>
std::vector<std::int64_t> shapes_at(std::span<const std::int64_t> coordinates, const Mesh& mesh,
                                    std::span<const std::int64_t> shape, Cut&& cut) {
  std::vector<std::int64_t> shapes;
  shapes.reserve(shape.size() * (coordinates.size() / mesh.ndim));
  for (; !coordinates.empty(); coordinates = coordinates.subspan(mesh.ndim)) {
    shapes.insert(shapes.end(), shape.begin(), shape.end());
    cut(shapes.data() + shapes.size() - shape.size(), coordinates.data());
  }
  return shapes;
}

// The shape that mesh dim `mesh_dim` cuts: every other cut of `layout` applied, in shard order.
std::vector<std::int64_t> shapes_without(const Layout& layout, int mesh_dim, const Mesh& mesh,
                                         const TensorInfo& info,
                                         std::span<const std::int64_t> coordinates) {
  return shapes_at(coordinates, mesh, info.shape, [&](std::int64_t* shape, const auto* coordinate) {
    for (int position = 0; position < layout.ndim; ++position) {
      for (int m = 0; m < layout.ndim; ++m) {
        const Placement p = layout.placements[m];
        if (m == mesh_dim || !p.is_shard_like() || layout.position[m] != position) continue;
        shape[p.dim] = local_size(p, shape[p.dim], mesh.size[m], coordinate[m]);
      }
    }
  });
}

// Greedy's logical shapes come from the source and are never updated: mesh dims left of it cut.
struct GreedyMoves {
  const Layout& src;
  const Mesh& mesh;
  std::span<const std::int64_t> coordinates;
  std::span<const std::int64_t> shape;
  std::vector<Move> moves = {};

  void open(int) {}
  void either(int, Placement, Placement) {}
  void step(int m, Placement from, Placement to) {
    const auto cut = [&](std::int64_t* logical, const auto* coordinate) {
      for (int i = 0; i < m; ++i) {
        const Placement p = src.placements[i];
        if (p.is_shard()) logical[p.dim] = chunk_size(logical[p.dim], mesh.size[i], coordinate[i]);
      }
    };
    moves.push_back({m, from, to, shapes_at(coordinates, mesh, shape, cut)});
  }
};

Plan greedy_plan(const Layout& src, const Layout& dst, const Mesh& mesh, const TensorInfo& info,
                 std::span<const std::int64_t> coordinates) {
  GreedyMoves visitor{src, mesh, coordinates, info.shape};
  walk_greedy(src, dst.placements.data(), 0, num_shards(src, mesh), visitor);
  return {PlanStatus::kFound, false, std::move(visitor.moves)};
}

bool is_opaque(const Layout& layout) {
  return std::any_of(layout.placements.begin(), layout.placements.begin() + layout.ndim,
                     [](Placement p) { return p.kind == Kind::kOpaque; });
}

}  // namespace

double TensorInfo::bytes() const {
  std::int64_t elements = itemsize;
  for (const auto size : shape) elements *= size;
  return static_cast<double>(elements);
}

GraphPlanner::GraphPlanner(const Mesh& mesh, const TensorInfo& info, Dialect dialect,
                           std::span<const std::uint64_t> op_hashes)
    : mesh_(mesh),
      tensor_dims_(static_cast<int>(info.shape.size())),
      bytes_(info.bytes()),
      dialect_(dialect),
      op_hashes_(op_hashes) {}

void GraphPlanner::remember(const Layout& src, const Layout& dst) {
  bool grew = false;
  for (int m = 0; m < dst.ndim; ++m) {
    if (dst.placements[m].is_strided()) grew |= add_if_new(seen_strided_, dst.placements[m]);
  }
  for (const Layout* layout : {&src, &dst}) {
    for (int m = 0; m < layout->ndim; ++m) {
      const Placement p = layout->placements[m];
      if (p.is_partial()) grew |= add_if_new(seen_partials_, partial(p.reduce_op()));
    }
  }
  if (!grew) return;
  partials_ =
      in_set_order(seen_partials_, [this](Placement p) { return op_hashes_[p.reduce_op()]; });
  strided_ = in_set_order(seen_strided_, [](Placement p) { return hash_int_pair(p.dim, p.value); });
}

GraphSearch::Moves GraphPlanner::moves_to(const Layout& dst) const {
  const auto* end = dst.placements.data() + dst.ndim;
  GraphSearch::Moves moves;
  // torch offers Replicate -> Partial for every reduce op it remembers. One that the goal does not
  // hold can only be left by a reduction, which costs more than not having entered it: no cheapest
  // path has it, and no tie either.
  for (const Placement p : partials_) {
    const auto held = [&](Placement q) { return q.is_partial() && q.reduce_op() == p.reduce_op(); };
    if (std::any_of(dst.placements.data(), end, held)) moves.partials.push_back(p);
  }
  moves.strided = strided_;
  for (int m = 0; m < dst.ndim && dialect_.zero_fill_partial; ++m) {
    if (dst.placements[m] == partial(kSum)) moves.zero_fill |= static_cast<std::uint8_t>(1u << m);
  }
  return moves;
}

GraphSearch& GraphPlanner::search(const Layout& src, const Layout& dst) {
  remember(src, dst);
  auto moves = moves_to(dst);
  for (const Kept& kept : searches_) {
    if (kept.moves == moves && kept.src == src) return *kept.search;
  }
  auto made = std::make_unique<GraphSearch>(mesh_, tensor_dims_, bytes_, src, moves);
  searches_.push_back({src, std::move(moves), std::move(made)});
  return *searches_.back().search;
}

std::vector<Layout> GraphPlanner::path(const Layout& src, const Layout& dst) {
  remember(src, dst);
  return GraphSearch::path(mesh_, tensor_dims_, bytes_, src, dst, moves_to(dst));
}

std::optional<double> GraphPlanner::price(const Layout& src, const Layout& dst) {
  return search(src, dst).price_to(dst);
}

bool needs_graph(const Layout& src, const Layout& dst, bool force_graph) {
  return force_graph || has_strided(src) || has_strided(dst) || !has_default_order(src) ||
         !has_default_order(dst);
}

std::optional<double> cost_without_plan(const Layout& src, const Layout& dst, bool member) {
  if (all_replicate(src)) return 0.0;
  if (src == dst) return 0.0;
  if (!member) return 0.0;
  if (!src.ordered || !dst.ordered) return kImpossible;
  return std::nullopt;
}

Plan plan_redistribute(const Layout& src, const Layout& dst, const Mesh& mesh,
                       const TensorInfo& info, std::span<const std::int64_t> coordinates,
                       bool force_graph, Dialect dialect,
                       std::span<const std::uint64_t> op_hashes) {
  if (!needs_graph(src, dst, force_graph)) return greedy_plan(src, dst, mesh, info, coordinates);
  std::optional<Layout> ends[2];
  for (int i = 0; i < 2; ++i) {
    const Layout& layout = i == 0 ? src : dst;
    if (layout.ordered) {
      ends[i] = layout;
      continue;
    }
    // torch refuses to decode beside a placement it does not know, and goes greedy where no order
    // fits the split factors.
    if (has_strided(layout) && is_opaque(layout)) return {PlanStatus::kNotDecodable, true, {}};
    ends[i] = decode_strided(layout, mesh);
    if (!ends[i]) return greedy_plan(src, dst, mesh, info, coordinates);
  }
  GraphPlanner planner(mesh, info, dialect, op_hashes);
  const auto path = planner.path(*ends[0], *ends[1]);
  if (path.empty()) return {PlanStatus::kUnreachable, true, {}};
  Plan plan{PlanStatus::kFound, true, {}};
  for (std::size_t i = 1; i < path.size(); ++i) {
    const int m = changed_mesh_dim(path[i - 1], path[i]);
    plan.moves.push_back({m, path[i - 1].placements[m], path[i].placements[m],
                          shapes_without(path[i - 1], m, mesh, info, coordinates)});
  }
  return plan;
}

}  // namespace shardprop
