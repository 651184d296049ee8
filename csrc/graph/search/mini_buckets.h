// Mini-bucket elimination: a bound where the tables of exact elimination are too large, and a
// search that its tables guide.
//
// Each variable's tables are joined as far as the joint one has no more than so many entries; what
// is left over is joined apart, and each part may give the variable a label of its own, so that
// their minima add up to a bound (R. Dechter, I. Rish, "Mini-buckets: a general scheme for bounded
// inference", JACM 50(2), 2003). Before, the parts' least prices by label are made the same, which
// raises it (A. Ihler, N. Flerova, R. Dechter, L. Otten, "Join-graph based cost-shifting schemes",
// UAI 2012).
#pragma once

#include "graph/bounds/slacks.h"
#include "graph/search/factors.h"

namespace shardprop::graph {

// An order of all variables with a choice. Where its tables become too large to count, those that
// are left follow in any order.
[[nodiscard]] EliminationOrder order_for_buckets(const Model& model,
                                                 const std::vector<double>& prices);

class MiniBuckets {
 public:
  // Of the variables of `order`, which must outlive this. A table has at most `most_entries` if
  // the slacks allow it.
  MiniBuckets(Slacks slacks, const EliminationOrder& order, double most_entries, Meter& meter);

  // False: it was interrupted, or all tables together would take too much; ask nothing else then.
  [[nodiscard]] bool is_made() const { return is_made_; }
  // All answers cost at least this much.
  [[nodiscard]] double bound() const { return constant_; }

  // The answer of least cost below `cutoff`, sought depth first, the variable eliminated last
  // first; variables that no table ties together apart. kTooLarge: more than `most_tried` labels
  // were tried. Whatever the outcome, the best answer that was met is returned, if there is one.
  // Adds to `tried`.
  [[nodiscard]] Elimination search(double cutoff, std::int64_t most_tried, Meter& meter,
                                   std::int64_t& tried) const;

 private:
  struct Table {
    Shape shape;
    std::vector<double> prices;
  };
  struct Bucket {
    std::vector<std::size_t> tables;    // joined to eliminate the variable
    std::vector<std::size_t> messages;  // what that leaves
    double constant = 0;                // likewise, of no variable
  };
  struct Part {
    std::vector<int> scope;  // without the variable
    std::vector<std::size_t> tables;
    double entries;  // with it
  };
  struct Choice {
    double bound;  // of answers with this label, and those of the variables before it
    std::size_t live;
  };

  [[nodiscard]] std::vector<Part> parts_of(int v, double most_entries) const;
  [[nodiscard]] std::vector<double> joined(int v, const Part& part, bool with_own,
                                           Meter& meter) const;
  void send(int v, const Part& part, const std::vector<double>& joint);
  void put(std::vector<int> scope, std::vector<double> prices);
  [[nodiscard]] std::vector<std::vector<int>> components() const;
  [[nodiscard]] Elimination::Outcome search_one(const std::vector<int>& variables, double cutoff,
                                                std::int64_t last, Meter& meter,
                                                std::int64_t& tried, std::vector<std::size_t>& live,
                                                double& best) const;
  void choices(int v, double bound, const std::vector<std::size_t>& live,
               std::vector<Choice>& out) const;

  const EliminationOrder* order_;
  std::vector<std::size_t> position_;     // by variable: its step
  std::vector<std::vector<double>> own_;  // by variable, by live index
  std::vector<Table> tables_;
  std::vector<Bucket> buckets_;  // by variable
  double constant_, entries_ = 0;
  bool is_made_ = false;
};

}  // namespace shardprop::graph
