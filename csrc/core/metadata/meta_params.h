// What the table of ops (python/shardprop/closed_forms) says to two families of metadata beside the
// slots of arguments. The bindings export it, so that the table has the names and no number.
#pragma once

namespace shardprop {

namespace pointwise_params {

// What becomes of the promoted dtype.
enum Promotion : int { kDefault, kIntToFloat, kToBool, kIntToFloatUnlessRounded };

enum Flag : unsigned {
  kInPlace = 1,
  kSameDType = 2,   // all dtypes must be equal already
  kAnyCast = 8,     // in place: whatever the dtype, it is converted
  kBoolFirst = 16,  // the first operand is a mask
  kBackwards = 32,  // the iterator has the operands in the other order
  kUniform = 64,    // all tensors must have one dense layout, or be row-major
  kNoDims = 128,    // a second operand must have no dims
  kLimited = 256,   // some operand but the first must be there
  kBoolSecond = 512,
  kRowMajor = 1024,  // all tensors must be row-major
};

}  // namespace pointwise_params

namespace reduction_params {

enum Result : int { kOwn, kIntToInt64, kToBool, kToInt64 };

enum Flag : unsigned {
  kNoDimsIsOdd = 1,   // an empty list of dims does not mean all of them
  kNeverNarrows = 2,  // the dtype asked for must hold what the tensor's does
};

}  // namespace reduction_params

}  // namespace shardprop
