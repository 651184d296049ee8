#include "notation/notation_fit.h"

#include <algorithm>

#include "notation/notation_layout.h"
#include "notation/notation_names.h"

namespace shardprop {
namespace {

class Fitter {
 public:
  Fitter(const Pattern& pattern, const NotedCall& call) : pattern_(pattern), call_(call) {}

  Fit fit() {
    take_operands();
    take_outputs();
    const AxisLayout layout(pattern_, call_, fit_.operands);
    fit_.axes = layout.axes();
    std::vector<std::vector<int>> lacking(fit_.operands.size());
    for (std::size_t i = 0; i < fit_.operands.size(); ++i) {
      if (!term(fit_.operands[i]).is_any) layout.lay_out_operand(fit_.operands[i], lacking[i]);
    }
    for (FittedTensor& tensor : fit_.outputs) {
      if (!tensor.is_absent && !term(tensor).is_any) layout.lay_out_output(tensor);
    }
    check_lacking(lacking);
    read_sizes();
    read_merged_sizes();
    put_in_order(layout);
    drop_stretched();
    return std::move(fit_);
  }

 private:
  const Term& term(const FittedTensor& tensor) const {
    const int operands = static_cast<int>(pattern_.operands.size());
    return tensor.term < operands ? pattern_.operands[tensor.term]
                                  : pattern_.outputs[tensor.term - operands];
  }

  const FittedTensor& tensor(int index) const {
    const int operands = static_cast<int>(fit_.operands.size());
    return index < operands ? fit_.operands[index] : fit_.outputs[index - operands];
  }

  [[noreturn]] static void fail(const FittedTensor& tensor, const std::string& message) {
    throw FitError(message, tensor.term, tensor.element);
  }

  void take_operands() {
    for (std::size_t t = 0; t < call_.operands.size(); ++t) {
      const NotedTensors& given = call_.operands[t];
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (!given[i]) continue;
        const NotedShape& shape = *given[i];
        FittedTensor tensor;
        tensor.term = static_cast<int>(t);
        if (pattern_.operands[t].is_list) tensor.element = static_cast<int>(i);
        if (shape.size() > kMaxNotationDims) {
          fail(tensor, "Expected at most 64 dims, got " + std::to_string(shape.size()) + ".");
        }
        tensor.shape = shape;
        fit_.operands.push_back(std::move(tensor));
      }
    }
  }

  void take_outputs() {
    if (call_.no_outputs) return;
    for (std::size_t t = 0; t < pattern_.outputs.size(); ++t) {
      FittedTensor output;
      output.term = static_cast<int>(pattern_.operands.size() + t);
      if (!call_.outputs) {
        if (pattern_.outputs[t].is_list) fail(output, "Expected the shapes of the list, got none.");
        fit_.outputs.push_back(output);
        continue;
      }
      const NotedTensors& given = (*call_.outputs)[t];
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (pattern_.outputs[t].is_list) output.element = static_cast<int>(i);
        output.shape = given[i];
        output.is_absent = !given[i];
        fit_.outputs.push_back(output);
      }
    }
  }

  // An operand may lack its first dims if another operand has them.
  void check_lacking(const std::vector<std::vector<int>>& lacking) {
    std::vector<bool> is_there(fit_.axes.size(), false);
    for (const FittedTensor& tensor : fit_.operands) {
      for (const auto& dim : tensor.dims) {
        for (const int axis : dim) is_there[axis] = true;
      }
    }
    for (std::size_t i = 0; i < lacking.size(); ++i) {
      for (const int axis : lacking[i]) {
        if (factor_of(axis).constraints.same) fit_.axes[axis].differs = true;
        if (is_there[axis]) continue;
        fail(fit_.operands[i], "Expected a dim " + quoted(axis) +
                                   ", which no other has, got shape " +
                                   to_text(*fit_.operands[i].shape) + ".");
      }
    }
  }

  const Factor& factor_of(int axis) const { return pattern_.factors[fit_.axes[axis].factor]; }

  std::string quoted(int axis) const { return '"' + factor_of(axis).name + '"'; }

  // --- sizes ------------------------------------------------------------------------------------

  void read_sizes() {
    const int operands = static_cast<int>(fit_.operands.size());
    for (int i = 0; i < operands + static_cast<int>(fit_.outputs.size()); ++i) {
      const FittedTensor& given = tensor(i);
      if (!given.shape || term(given).is_any) continue;
      for (std::size_t d = 0; d < given.dims.size(); ++d) {
        const NotedSize size = (*given.shape)[d];
        if (given.dims[d].empty() && size >= 0 && size != 1) {  // written "1"
          fail(given,
               "Expected size 1 of dim " + std::to_string(d) + ", got " + to_text(size) + ".");
        }
        if (given.dims[d].size() == 1) note_size(given.dims[d][0], size, i, i >= operands);
      }
    }
  }

  void note_size(int index, NotedSize size, int from, bool is_output) {
    Axis& axis = fit_.axes[index];
    if (!axis.size) {
      axis.size = size;
      axis.source = from;
      return;
    }
    if (*axis.size == size || axis.differs) return;
    const Factor& factor = pattern_.factors[axis.factor];
    if (factor.whole) {  // as the dim along which tensors are joined
      axis.differs = true;
      return;
    }
    const bool either_is_one = *axis.size == 1 || size == 1;
    if ((*axis.size < 0 || size < 0) && !(either_is_one && !is_output)) {
      throw NeedsSize("sizes to compare");
    }
    if (factor.constraints.same) {
      axis.differs = true;
    } else if (*axis.size == 1 && !is_output) {
      axis.size = size;
      axis.source = from;
    } else if (size != 1 || is_output) {
      const FittedTensor& first = tensor(axis.source);
      fail(tensor(from), "Expected size " + to_text(*axis.size) + " of " + quoted(index) +
                             ", as in " + name_of(first) + ", got " + to_text(size) + ".");
    }
  }

  std::string name_of(const FittedTensor& tensor) const {
    const int operands = static_cast<int>(pattern_.operands.size());
    const bool is_output = tensor.term >= operands;
    std::string name = is_output ? "output " + std::to_string(tensor.term - operands)
                                 : "operand " + std::to_string(tensor.term);
    if (tensor.element) name += ", element " + std::to_string(*tensor.element);
    return name;
  }

  // A merged dim's size is the product of its axes', of which one may be told by it. Where one is,
  // another merged dim may have only one unknown left.
  void read_merged_sizes() {
    bool found = true;
    while (found) {
      found = false;
      each_merged([&](const FittedTensor& given, std::size_t d) {
        if (given.shape) found |= infer(given, d);
      });
    }
    each_merged([&](const FittedTensor& given, std::size_t d) { check_merged(given, d); });
  }

  template <class Visit>
  void each_merged(Visit visit) const {
    for (const auto* tensors : {&fit_.operands, &fit_.outputs}) {
      for (const FittedTensor& given : *tensors) {
        for (std::size_t d = 0; d < given.dims.size(); ++d) {
          if (given.dims[d].size() > 1) visit(given, d);
        }
      }
    }
  }

  // The product of the sizes that are known, at most kTooMuch.
  static constexpr NotedSize kTooMuch = NotedSize{1} << 62;
  NotedSize known_product(const std::vector<int>& axes) const {
    NotedSize product = 1;
    for (const int axis : axes) {
      const auto size = fit_.axes[axis].size;
      if (!size) continue;
      if (*size < 0) throw NeedsSize("size of a merged dim");
      product = *size > 0 && product > kTooMuch / *size ? kTooMuch : product * *size;
    }
    return product;
  }

  bool infer(const FittedTensor& given, std::size_t d) {
    const std::vector<int>& axes = given.dims[d];
    const auto is_unknown = [this](int axis) { return !fit_.axes[axis].size; };
    if (std::count_if(axes.begin(), axes.end(), is_unknown) != 1) return false;
    const NotedSize size = (*given.shape)[d], rest = known_product(axes);
    if (size < 0) throw NeedsSize("size of a merged dim");
    if (rest == 0 || size % rest != 0) {
      fail(given, "Expected a multiple of " + std::to_string(rest) + " as size of dim " +
                      std::to_string(d) + ", got " + std::to_string(size) + ".");
    }
    fit_.axes[*std::find_if(axes.begin(), axes.end(), is_unknown)].size = size / rest;
    return true;
  }

  void check_merged(const FittedTensor& given, std::size_t d) const {
    for (const int axis : given.dims[d]) {
      const bool is_ambiguous = fit_.axes[axis].differs && factor_of(axis).whole;
      if (!fit_.axes[axis].size || is_ambiguous) {
        fail(given, "Expected one size of " + quoted(axis) + " for the merged dim " +
                        std::to_string(d) + ", got " + (is_ambiguous ? "several" : "none") + ".");
      }
    }
    const NotedSize product = known_product(given.dims[d]);
    if (!given.shape || (*given.shape)[d] == product || (*given.shape)[d] == 1) return;
    if ((*given.shape)[d] < 0) throw NeedsSize("size of a merged dim");
    fail(given, "Expected size " + std::to_string(product) + " of the merged dim " +
                    std::to_string(d) + ", got " + std::to_string((*given.shape)[d]) + ".");
  }

  // A dim of size 1 that is broadcast is whole.
  void drop_stretched() {
    for (FittedTensor& operand : fit_.operands) {
      for (std::size_t d = 0; d < operand.dims.size(); ++d) {
        if ((*operand.shape)[d] != 1) continue;
        const auto& axes = operand.dims[d];
        const bool is_stretched = std::any_of(
            axes.begin(), axes.end(), [this](int axis) { return fit_.axes[axis].size != 1; });
        if (is_stretched) operand.dims[d].clear();
      }
    }
  }

  // Factors as they are mentioned, the axes of one as they lie in the tensor that has it first.
  void put_in_order(const AxisLayout& layout) {
    for (std::size_t f = 0; f < pattern_.factors.size(); ++f) {
      const int first = layout.first_axis(static_cast<int>(f));
      std::vector<std::pair<int, int>> placed;
      for (int j = 0; j < layout.axes_of(static_cast<int>(f)); ++j)
        placed.emplace_back(-1, first + j);
      place_by_first_tensor(static_cast<int>(f), first, placed);
      std::stable_sort(placed.begin(), placed.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [position, axis] : placed) fit_.order.push_back(axis);
    }
  }

  void place_by_first_tensor(int factor, int first,
                             std::vector<std::pair<int, int>>& placed) const {
    for (const auto& operand : fit_.operands) {
      if (!term(operand).mentions(factor)) continue;
      for (std::size_t d = 0; d < operand.dims.size(); ++d) {
        if (operand.dims[d].size() != 1 || fit_.axes[operand.dims[d][0]].factor != factor) continue;
        placed[operand.dims[d][0] - first].first = static_cast<int>(d);
      }
      return;
    }
  }

  const Pattern& pattern_;
  const NotedCall& call_;
  Fit fit_;
};

}  // namespace

Fit fit(const Pattern& pattern, const NotedCall& call) { return Fitter(pattern, call).fit(); }

std::string to_text(NotedSize size) { return size < 0 ? "an expression" : std::to_string(size); }

std::string to_text(const NotedShape& shape) {
  std::string text = "(";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d > 0 ? ", " : "") + to_text(shape[d]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace shardprop
