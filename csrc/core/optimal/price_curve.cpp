#include "optimal/price_curve.h"

#include <algorithm>

namespace shardprop {

PriceCurve::PriceCurve(std::vector<PricePiece> pieces)
    : pieces_(std::move(pieces)), least_later_(pieces_.size()) {
  // A line rises, so that its least is where it begins.
  double least = __builtin_huge_val();
  for (std::size_t i = pieces_.size(); i-- > 0;) {
    least_later_[i] = least;
    least = std::min(least, on(i, pieces_[i].from_bytes));
  }
}

double PriceCurve::least_from(double bytes) const {
  const std::size_t piece = find(bytes);
  return std::min(on(piece, bytes), least_later_[piece]);
}

std::size_t PriceCurve::find(double bytes) const {
  const auto after = std::upper_bound(
      pieces_.begin() + 1, pieces_.end(), bytes,
      [](double size, const PricePiece& piece) { return size < piece.from_bytes; });
  return static_cast<std::size_t>(after - pieces_.begin()) - 1;
}

}  // namespace shardprop
