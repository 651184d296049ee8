#include "graph/bounds/message_passing.h"

#include <algorithm>

#include "graph/bounds/min_plus.h"
#include "graph/index.h"

namespace shardprop::graph {
namespace {
// The inner loop is vectorised: that many entries take about a nanosecond.
constexpr std::size_t kEntriesPerWork = 2;
}  // namespace

MessagePassing::MessagePassing(const Model& model) : prices(model.unary), model_(&model) {
  std::size_t size = 0;
  for (const Link& link : model.links) {
    const Matrix& matrix = model.matrices[at(link.matrix)];
    channels_.push_back({size, size + at(matrix.columns)});
    size += at(matrix.columns) + at(matrix.rows);
  }
  messages_.assign(size, 0.0);
  normal_back_.assign(model.links.size(), 0.0);
  bound_before_.assign(at(model.variables()), 0.0);
  for (int v = 0; v < model.variables(); ++v) {
    const std::size_t most = std::max(model.back[at(v)].size(), model.ahead[at(v)].size());
    share_.push_back(1.0 / static_cast<double>(std::max<std::size_t>(most, 1)));
  }
}

// sum_ = prices and messages into v; returns their minimum, which is taken off unless infinite.
double MessagePassing::gather(int v) {
  const auto count = at(model_->labels(v));
  const double* own = prices.data() + model_->first[at(v)];
  sum_.assign(own, own + count);
  for (const int e : model_->back[at(v)]) {
    const double* message = messages_.data() + channels_[at(e)].ahead;
    const std::int32_t* columns = model_->links[at(e)].columns.data();
    for (std::size_t l = 0; l < count; ++l) sum_[l] += message[columns[l]];
  }
  for (const int e : model_->ahead[at(v)]) {
    const double* message = messages_.data() + channels_[at(e)].back;
    const std::int32_t* rows = model_->links[at(e)].rows.data();
    for (std::size_t l = 0; l < count; ++l) sum_[l] += message[rows[l]];
  }
  const double least = *std::min_element(sum_.begin(), sum_.end());
  if (least == kInfinity) return least;
  for (double& value : sum_) value -= least;
  return least;
}

// One message: classes of labels weigh their cheapest label's share, less what came from there.
// Returns the constant taken off so that the least entry is 0.
double MessagePassing::send(const std::vector<std::int32_t>& classes, int count, double share,
                            const double* incoming, const double* matrix, int out_count,
                            double* out) {
  weights_.assign(at(count), kInfinity);
  for (std::size_t l = 0; l < classes.size(); ++l) {
    double& weight = weights_[at(classes[l])];
    weight = std::min(weight, sum_[l]);
  }
  for (std::size_t c = 0; c < weights_.size(); ++c) {
    // An infinite weight is removed, and what came in may be infinite too: no difference then.
    if (weights_[c] != kInfinity) weights_[c] = share * weights_[c] - incoming[c];
  }
  min_plus(weights_, matrix, count, out_count, out);
  const double least = *std::min_element(out, out + out_count);
  if (least == kInfinity) return 0;
  for (int c = 0; c < out_count; ++c) out[c] -= least;
  return least;
}

void MessagePassing::choose(int v) {
  if (choice_failed_) return;
  const auto count = at(model_->labels(v));
  const double* own = prices.data() + model_->first[at(v)];
  choice_.assign(own, own + count);
  for (const int e : model_->back[at(v)]) {
    const Link& link = model_->links[at(e)];
    const Matrix& matrix = model_->matrices[at(link.matrix)];
    const int r = link.rows[at(chosen_[at(link.u)])];
    const double* row = matrix.prices.data() + at(r) * at(matrix.columns);
    for (std::size_t l = 0; l < count; ++l) choice_[l] += row[link.columns[l]];
  }
  for (const int e : model_->ahead[at(v)]) {
    const double* message = messages_.data() + channels_[at(e)].back;
    const std::int32_t* rows = model_->links[at(e)].rows.data();
    for (std::size_t l = 0; l < count; ++l) choice_[l] += message[rows[l]];
  }
  const auto best = std::min_element(choice_.begin(), choice_.end());
  choice_failed_ = *best == kInfinity;
  chosen_.push_back(static_cast<int>(best - choice_.begin()));
}

bool MessagePassing::pass_ahead(const Interrupt& interrupt) {
  Meter meter(interrupt);
  chosen_.clear();
  choice_failed_ = false;
  double bound = constant;
  for (int v = 0; v < model_->variables(); ++v) {
    bound_before_[at(v)] = bound;
    choose(v);
    const double least = gather(v);
    if (least == kInfinity) {
      chosen_.clear();
      return false;
    }
    bound += least;
    for (const int e : model_->ahead[at(v)]) {
      const Link& link = model_->links[at(e)];
      const Matrix& matrix = model_->matrices[at(link.matrix)];
      bound +=
          send(link.rows, matrix.rows, share_[at(v)], messages_.data() + channels_[at(e)].back,
               matrix.prices.data(), matrix.columns, messages_.data() + channels_[at(e)].ahead);
      if (meter.stop_after(matrix.prices.size() / kEntriesPerWork + link.rows.size())) {
        chosen_.clear();
        return true;
      }
    }
  }
  if (choice_failed_) chosen_.clear();
  return true;
}

double MessagePassing::pass_back(double cutoff, const Interrupt& interrupt) {
  Meter meter(interrupt);
  double bound = 0;
  for (int v = model_->variables() - 1; v >= 0; --v) {
    for (const int e : model_->ahead[at(v)]) bound += normal_back_[at(e)];
    const double least = gather(v);
    if (least == kInfinity) return kInfinity;
    bound += least;
    const double here = bound_before_[at(v)] + bound;
    double* own = prices.data() + model_->first[at(v)];
    bool any = false;
    for (std::size_t l = 0; l < sum_.size(); ++l) {
      if (here + sum_[l] >= cutoff) {
        if (own[l] != kInfinity) ++removed_;
        own[l] = sum_[l] = kInfinity;
      }
      any |= sum_[l] != kInfinity;
    }
    if (!any) return kInfinity;
    for (const int e : model_->back[at(v)]) {
      const Link& link = model_->links[at(e)];
      const Matrix& matrix = model_->matrices[at(link.matrix)];
      normal_back_[at(e)] = send(
          link.columns, matrix.columns, share_[at(v)], messages_.data() + channels_[at(e)].ahead,
          matrix.transposed.data(), matrix.rows, messages_.data() + channels_[at(e)].back);
      if (meter.stop_after(matrix.prices.size() / kEntriesPerWork + link.rows.size())) {
        return -kInfinity;
      }
    }
  }
  return constant + bound;
}

void MessagePassing::keep_only(int v, int label) {
  for (int l = 0; l < model_->labels(v); ++l) {
    if (l != label) remove(v, l);
  }
}

void MessagePassing::remove(int v, int label) {
  prices[at(model_->first[at(v)] + label)] = kInfinity;
}

int MessagePassing::left(int v) const {
  const double* own = prices.data() + model_->first[at(v)];
  return static_cast<int>(
      std::count_if(own, own + model_->labels(v), [](double p) { return p != kInfinity; }));
}

}  // namespace shardprop::graph
