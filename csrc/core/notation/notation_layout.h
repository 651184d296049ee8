// Which dim of a tensor is which axis of a pattern: ranks and arguments decide, sizes do not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "notation/notation_fit.h"

namespace shardprop {

class AxisLayout {
 public:
  // Counts how many axes each factor is. `operands`: terms and shapes are set.
  AxisLayout(const Pattern& pattern, const NotedCall& call, std::span<const FittedTensor> operands);

  [[nodiscard]] std::vector<Axis> axes() const;
  // The axes of a factor are numbered from here on.
  [[nodiscard]] int first_axis(int factor) const { return first_[factor]; }
  [[nodiscard]] int axes_of(int factor) const { return counts_[factor]; }

  // Sets the dims of a tensor. An operand may lack its first dims: `lacking` are the axes that it
  // would have had there.
  void lay_out_operand(FittedTensor& tensor, std::vector<int>& lacking) const;
  void lay_out_output(FittedTensor& tensor) const;

 private:
  using Pieces = std::vector<std::vector<int>>;  // dims with their axes
  // A hint where somebody wrote a name for each dim, as einsum does, and no blanks between them.
  [[nodiscard]] std::string separated(const Term& term, int rank) const;

  struct Named {
    int argument;
    Pieces pieces;
  };
  struct Laid {
    Pieces in_order;
    std::vector<Named> named;
    std::vector<int> lacking;  // axes of "..." that a tensor of smaller rank lacks

    [[nodiscard]] std::size_t dims() const;
  };

  void count_named(int factor, const Place& place, int rank, const FittedTensor& tensor);
  void set_count(int factor, int count, const FittedTensor& tensor);
  [[nodiscard]] int counted(const Place& place) const;
  [[nodiscard]] int named_ones(const Place& place, std::optional<int> rank) const;
  // How many dims of a tensor of this rank a dim of its term stands for, "..." apart.
  [[nodiscard]] int width(const Dim& dim, std::optional<int> rank) const;
  [[nodiscard]] int rest_of(const Term& term, int rank) const;
  void count_right_only();

  [[nodiscard]] Laid lay(const Term& term, std::optional<int> rank, int rest) const;
  void keep_dims(const Term& term, Laid& laid) const;
  [[nodiscard]] std::vector<int> positions(const Named& named, int rank,
                                           const FittedTensor& tensor) const;
  void merge(Laid& laid, int rank, FittedTensor& tensor) const;
  [[nodiscard]] std::string argument_text(int argument) const;

  const Pattern& pattern_;
  const NotedCall& call_;
  std::vector<int> counts_, first_;
};

}  // namespace shardprop
