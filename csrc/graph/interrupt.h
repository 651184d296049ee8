// Asking in long loops whether to stop.
#pragma once

#include <cstddef>
#include <functional>

namespace shardprop::graph {

// True to stop. Asking may look at a clock, take a lock, or throw.
using Interrupt = std::function<bool()>;

// Asks once per so much work, so that loops of any length of step can afford it.
class Meter {
 public:
  // `interrupt` must outlive this.
  explicit Meter(const Interrupt& interrupt) : interrupt_(interrupt) {}

  // `work`: entries looked at since the last call, about a nanosecond each. True to stop, then and
  // ever after.
  [[nodiscard]] bool stop_after(std::size_t work) {
    done_ += work + 1;
    if (done_ < kWork) return stopped_;
    done_ = 0;
    stopped_ = interrupt_() || stopped_;
    return stopped_;
  }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  static constexpr std::size_t kWork = std::size_t{1} << 20;  // about a millisecond

  const Interrupt& interrupt_;
  std::size_t done_ = 0;
  bool stopped_ = false;
};

}  // namespace shardprop::graph
