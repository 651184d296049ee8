// Sequential tree-reweighted message passing (V. Kolmogorov, "Convergent tree-reweighted message
// passing for energy minimization", IEEE PAMI 28(10), 2006) over the classes of a model.
//
// Each pass back gives a lower bound that holds by itself, whatever the messages are. With D_j the
// prices of variable j plus all messages into it, less their minimum m_j, and with the messages
// back normalised by v_e, summing the inequality that defines each message gives
//
//   cost(x) >= sum_j m_j + sum_e v_e + sum_j (1 - links_back(j) * share_j) D_j(x_j),
//
// whose last sum is not negative. Taking the inequalities of the pass ahead for links that begin
// before j, and those of the pass back for the rest, leaves D_j whole: that bounds each label of j
// alone, and labels that cannot beat the best known answer are removed at once.
#pragma once

#include "graph/interrupt.h"
#include "graph/presolve/model.h"

namespace shardprop::graph {

class MessagePassing {
 public:
  // The model must outlive this.
  explicit MessagePassing(const Model& model);

  // Prices by label: the model's, with multipliers of its sides added. Infinite: removed.
  std::vector<double> prices;
  double constant = 0;  // added to every bound

  // Passes messages to later variables, and chooses labels on the way: each given those chosen
  // before it and the messages from those after it. False: some variable has no label left. Once
  // interrupted there are no choices, and messages are such that no pass may follow.
  [[nodiscard]] bool pass_ahead(const Interrupt& interrupt);
  // The choices of the last pass; empty if they ran into a forbidden pair.
  [[nodiscard]] const std::vector<int>& chosen() const { return chosen_; }

  // Passes messages to earlier variables; returns a lower bound on the cost of all answers that
  // only use labels left and cost less than `cutoff`; +inf if there are none. Removes labels whose
  // bound is not below `cutoff`. -inf if it was interrupted.
  [[nodiscard]] double pass_back(double cutoff, const Interrupt& interrupt);
  [[nodiscard]] std::int64_t removed() const { return removed_; }

  // Leaves variable v only `label`, or all but it.
  void keep_only(int v, int label);
  void remove(int v, int label);
  [[nodiscard]] int left(int v) const;

  // Messages of a link, by column and by row of its matrix; +inf: no partner is left.
  [[nodiscard]] const double* message_ahead(int link) const {
    return messages_.data() + channels_[static_cast<std::size_t>(link)].ahead;
  }
  [[nodiscard]] const double* message_back(int link) const {
    return messages_.data() + channels_[static_cast<std::size_t>(link)].back;
  }
  // The part of its prices that a variable gives to each of its links.
  [[nodiscard]] double share(int v) const { return share_[static_cast<std::size_t>(v)]; }

 private:
  struct Channel {
    std::size_t ahead, back;  // where messages to columns and to rows begin
  };
  [[nodiscard]] double gather(int v);
  void choose(int v);
  [[nodiscard]] double send(const std::vector<std::int32_t>& classes, int count, double share,
                            const double* incoming, const double* matrix, int out_count,
                            double* out);

  const Model* model_;
  std::vector<Channel> channels_;  // by link
  std::vector<double> messages_;
  std::vector<double> share_;                   // by variable
  std::vector<double> bound_before_;            // by variable: of the pass ahead up to it
  std::vector<double> normal_back_;             // by link: v_e
  std::vector<double> sum_, weights_, choice_;  // scratch
  std::vector<int> chosen_;
  bool choice_failed_ = false;
  std::int64_t removed_ = 0;
};

}  // namespace shardprop::graph
