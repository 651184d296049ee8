// What a layout costs at least on its way to one goal, for pruning the graph search.
//
// The relaxed problem forgets which tensor dim a shard cuts and in which order: per mesh dim it
// keeps only whether the goal is reached, and if not whether the tensor is replicated, partial,
// sharded or strided there. Bytes and step prices stay exact, since they depend on no more than
// that. Every step of the real graph is a step of the relaxed one, at the same price, so the
// relaxed distance to the goal never exceeds the real one.
#pragma once

#include <vector>

#include "layout/layout.h"
#include "layout/mesh.h"

namespace shardprop {

class GraphBound {
 public:
  // `strided`: may Replicate become a strided shard on the way; `zero_fill`: mesh dims (bits) on
  // which a shard may become the goal's Partial for free.
  GraphBound(const Mesh& mesh, double bytes, const Layout& source, const Layout& goal, bool strided,
             std::uint8_t zero_fill);

  // The relaxed class of `placement` on mesh dim `m`, times its weight in a state number. The
  // number of a layout is the sum over its mesh dims.
  [[nodiscard]] std::uint32_t part(int m, Placement placement) const;

  // Microseconds from the layout with this number to the goal, at least; infinite if unreachable.
  [[nodiscard]] double at(std::uint32_t number) const { return distance_[number]; }

 private:
  enum Class : std::uint8_t {
    kReplicated,
    kGoal,
    kPartialElse,
    kShardElse,
    kStridedElse,
    kClasses
  };

  [[nodiscard]] Placement example(int m, Class cls) const;
  [[nodiscard]] double move_cost(int m, Class from, Class to, double gigabytes) const;
  void relax_all();

  const Mesh& mesh_;
  double bytes_;
  Layout goal_;
  bool strided_;
  std::uint8_t zero_fill_;
  std::array<bool, kClasses> occurs_{};  // on some layout on the way
  std::array<std::uint32_t, kMaxMeshDims> weight_{};
  std::vector<double> distance_;
};

}  // namespace shardprop
