// The search on a reduced model: bound, remove, eliminate, and branch where that is too wide.
#pragma once

#include <limits>

#include "graph/bounds/multipliers.h"
#include "graph/search/elimination_order.h"
#include "graph/search/ticker.h"

namespace shardprop::graph {

class Neighbourhoods;

class Search {
 public:
  // All must outlive this.
  Search(const Model& model, const Options& options, Ticker& ticker);
  Search(const Search&) = delete;  // its interrupt refers to it
  Search& operator=(const Search&) = delete;

  // An answer to start from, e.g. of a similar problem; one that cannot be repaired is ignored.
  void suggest(std::vector<int> chosen);
  // Of the model's sides. By default all 0.
  void start_from(Multipliers multipliers) { multipliers_ = std::move(multipliers); }
  void run();

  [[nodiscard]] bool found() const { return best_ < kInfinity; }
  [[nodiscard]] const std::vector<int>& best() const { return best_chosen_; }
  // On the cost of every answer; +inf if it is proved that there is none.
  [[nodiscard]] double bound() const;
  [[nodiscard]] const Multipliers& multipliers() const { return multipliers_; }

  std::int64_t iterations = 0, removed = 0, nodes = 0;
  int width = -1;

 private:
  // The bound of a subproblem: every answer in it that beats the cutoff costs at least this much;
  // +inf if there is none.
  using Bound = double;
  struct Node {
    MessagePassing passing;
    Multipliers multipliers;
    Bound bound = -kInfinity;
  };

  [[nodiscard]] double cutoff() const;
  void offer(std::vector<int> chosen);
  void note(const std::vector<int>& chosen);
  void recombine(const Node& root, std::int64_t passes);
  [[nodiscard]] bool stopped();
  void open();
  [[nodiscard]] bool closed(const Node& node) const { return node.bound >= cutoff(); }
  [[nodiscard]] bool pass(Node& node);
  [[nodiscard]] bool is_root() const { return nodes == 0 && is_whole_; }
  void tighten(Node& node, int patience);
  void tune_multipliers(Node& node, int evaluations, int patience);
  void tune_one(Node& node, std::size_t side, int evaluations, int patience);
  [[nodiscard]] double first_step(const Node& node) const;
  [[nodiscard]] double next_cutoff(const Node& node, double step, int round) const;
  void raise(Node& root, Bound bound);
  bool deepen(Node& node);
  bool list_states(const Node& node);
  bool eliminate_within(Node& node, double most_entries, double most_work);
  [[nodiscard]] Bound narrow_gap(Node& root);
  void improve(const Node& node, Neighbourhoods& neighbourhoods, double most_entries, double work);
  [[nodiscard]] bool search_below(Node& node, double most_entries, std::int64_t most_tried);
  [[nodiscard]] Bound explore(Node& node, int depth);
  [[nodiscard]] int branch_variable(const Node& node) const;

  const Model& model_;
  const Options& options_;
  Ticker& ticker_;
  double best_ = kInfinity;
  double assumed_ = kInfinity;  // a cutoff that is tried, below that of the best answer
  std::vector<int> best_chosen_;
  double bound_ = -kInfinity;  // of the root
  std::vector<char> noted_;    // by label of the model: is it in an answer that was met?
  bool is_whole_ = true;       // is the root that is searched all of the problem?
  std::int64_t most_iterations_ = std::numeric_limits<std::int64_t>::max();
  Multipliers multipliers_;
  double scale_;  // below which differences of costs are not told apart from rounding: see kSame
  double grace_;  // seconds beyond the time limit
  bool stop_ = false;
  Interrupt interrupt_ = [this] { return stopped(); };
};

}  // namespace shardprop::graph
