// The price of one collective over the bytes that a rank sends: a line for each range of sizes.
//
// NCCL's tuner takes the least of several lines, some of which change with the size of the message,
// so that a price may fall where a range ends. A search that is exact does not mind; its bounds do,
// and ask what so many bytes and more cost at least:
//
//   price  |    /|  /          at(w) is the saw, least_from(w) the same cut off
//          |   / |_/  _ _ _    at the height that it falls to later on
//          |  /
//          +------------- bytes
#pragma once

#include <vector>

namespace shardprop {

// From `from_bytes` to the next piece the price is fixed_us + us_per_byte * bytes.
struct PricePiece {
  double from_bytes = 0.0;
  double fixed_us = 0.0;
  double us_per_byte = 0.0;
};

class PriceCurve {
 public:
  // What costs nothing; and one line for all sizes.
  PriceCurve() : PriceCurve(0.0, 0.0) {}
  PriceCurve(double fixed_us, double us_per_byte)
      : PriceCurve(std::vector<PricePiece>{{0.0, fixed_us, us_per_byte}}) {}
  // By ascending `from_bytes`, one at least, the first from 0; see validate_cost_model.
  explicit PriceCurve(std::vector<PricePiece> pieces);

  [[nodiscard]] const std::vector<PricePiece>& pieces() const { return pieces_; }
  // Microseconds of so many bytes.
  [[nodiscard]] double at(double bytes) const {
    return pieces_.size() == 1 ? on(0, bytes) : on(find(bytes), bytes);
  }
  // The least of so many bytes and of more.
  [[nodiscard]] double least_from(double bytes) const;

 private:
  [[nodiscard]] double on(std::size_t piece, double bytes) const {
    return pieces_[piece].fixed_us + bytes * pieces_[piece].us_per_byte;
  }
  [[nodiscard]] std::size_t find(double bytes) const;

  std::vector<PricePiece> pieces_;
  std::vector<double> least_later_;  // per piece: the least of all that come after it
};

}  // namespace shardprop
