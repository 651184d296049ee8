#include <array>
#include <vector>

#include "check.h"
#include "metadata/meta_call.h"
#include "metadata/meta_layout.h"
#include "metadata/tensor_meta.h"

using namespace shardprop;

namespace {

DType default_dtype() { return DType::kFloat; }

TensorMeta plain(Dims shape, DType dtype = DType::kFloat) {
  const Dims stride = contiguous_strides(shape);
  return {shape, stride, dtype};
}

// A call under construction: slots in order.
class Question {
 public:
  Question& tensor(const TensorMeta& meta) {
    Value value;
    value.kind = kTensor;
    value.first = static_cast<std::uint32_t>(tensors_.size());
    tensors_.push_back(meta);
    values_.push_back(value);
    return *this;
  }
  Question& integer(std::int64_t number) {
    Value value;
    value.kind = kInt;
    value.integer = number;
    values_.push_back(value);
    return *this;
  }
  Question& boolean(bool is) {
    Value value;
    value.kind = kBool;
    value.integer = is;
    values_.push_back(value);
    return *this;
  }
  Question& integers(const std::vector<std::int64_t>& numbers) {
    Value value;
    value.kind = kIntList;
    value.first = static_cast<std::uint32_t>(integers_.size());
    value.count = static_cast<std::uint32_t>(numbers.size());
    integers_.insert(integers_.end(), numbers.begin(), numbers.end());
    values_.push_back(value);
    return *this;
  }
  Question& absent() {
    values_.push_back({});
    return *this;
  }

  // The outputs by a family; empty where it declines.
  std::vector<std::optional<TensorMeta>> ask(std::string_view family,
                                             const std::vector<std::int64_t>& params = {}) const {
    Call call{values_, tensors_, integers_, {}, params, default_dtype, Device::kCpu};
    return find_family(family)(call) ? call.outputs : std::vector<std::optional<TensorMeta>>();
  }

 private:
  std::vector<Value> values_;
  std::vector<TensorMeta> tensors_;
  std::vector<std::int64_t> integers_;
};

// What an elementwise op of two tensors asks: default promotion, any dtype.
const std::vector<std::int64_t> kBinary{0, 3, 3, 15, 0, -1};

std::optional<Dims> strides_of(const std::vector<TensorMeta>& operands, const Dims& shape) {
  std::vector<const TensorMeta*> pointers;
  for (const TensorMeta& operand : operands) pointers.push_back(&operand);
  return elementwise_strides(pointers, shape);
}

}  // namespace

TEST(dtypes_promote_as_torchs) {
  CHECK(promote(DType::kBool, DType::kUInt8) == DType::kUInt8);
  CHECK(promote(DType::kInt8, DType::kUInt8) == DType::kInt16);
  CHECK(promote(DType::kInt64, DType::kHalf) == DType::kHalf);
  CHECK(promote(DType::kBFloat16, DType::kHalf) == DType::kFloat);
  CHECK(promote(DType::kDouble, DType::kComplexFloat) == DType::kComplexDouble);
  CHECK(!can_cast(DType::kFloat, DType::kInt64));
  CHECK(!can_cast(DType::kInt64, DType::kBool));
  CHECK(can_cast(DType::kDouble, DType::kHalf));
}

TEST(dense_is_contiguous_in_some_order) {
  CHECK(is_dense({{2, 3}, {1, 2}, DType::kFloat}));
  CHECK(!is_dense({{2, 3}, {4, 1}, DType::kFloat}));
  CHECK(!is_dense({{2, 3}, {0, 1}, DType::kFloat}));
  CHECK(is_dense({{2, 1, 3}, {3, 100, 1}, DType::kFloat}));
  CHECK(is_contiguous({{2, 0, 3}, {9, 9, 9}, DType::kFloat}));
  CHECK(is_channels_last_contiguous({{2, 3, 4, 5}, {60, 1, 15, 3}, DType::kFloat}));
}

TEST(a_format_is_suggested_by_strides) {
  CHECK(suggested_format({{2, 3, 4, 5}, {60, 1, 15, 3}, DType::kFloat}) == Format::kChannelsLast);
  CHECK(suggested_format(plain({2, 3, 4, 5})) == Format::kContiguous);
  // Either format has these strides.
  CHECK(suggested_format(plain({2, 1, 1, 1})) == Format::kContiguous);
}

TEST(views_keep_runs_that_lie_together) {
  CHECK_EQ(view_strides(plain({2, 3, 4}), {6, 4}), (Dims{4, 1}));
  CHECK_EQ(view_strides({{2, 3, 4}, {24, 8, 1}, DType::kFloat}, {6, 2, 2}), (Dims{8, 2, 1}));
  CHECK(!view_strides({{2, 3}, {1, 2}, DType::kFloat}, {6}));
  CHECK(!view_strides(plain({2, 3}), {2, 3, 2}));
}

TEST(elementwise_layouts_follow_the_operands) {
  const TensorMeta permuted{{2, 3}, {1, 2}, DType::kFloat};
  CHECK_EQ(strides_of({permuted, permuted}, {2, 3}), permuted.stride);
  CHECK_EQ(strides_of({permuted, plain({})}, {2, 3}), permuted.stride);
  CHECK_EQ(strides_of({plain({2, 3}), plain({3})}, {2, 3}), (Dims{3, 1}));
  // Gaps close, in the order of the dims.
  CHECK_EQ(strides_of({{{2, 3}, {2, 8}, DType::kFloat}}, {2, 3}), permuted.stride);
  // A repeated element says nothing of an order, unless it comes first and is copied first.
  const TensorMeta repeated{{2, 3}, {0, 0}, DType::kFloat};
  CHECK_EQ(strides_of({permuted, repeated}, {2, 3}), permuted.stride);
  CHECK(!strides_of({repeated, permuted}, {2, 3}));
}

TEST(layouts_that_torch_reads_in_several_ways_have_no_answer) {
  CHECK(!strides_of({{{4, 1}, {1, 100}, DType::kFloat}}, {4, 1}));
  CHECK(!strides_of({{{2, 0}, {1, 2}, DType::kFloat}}, {2, 0}));
}

TEST(pointwise_promotes_by_rank) {
  const auto dtype = [](const TensorMeta& a, const TensorMeta& b) {
    const auto outputs = Question().tensor(a).tensor(b).ask("pointwise", kBinary);
    return outputs.at(0)->dtype;
  };
  // A tensor of no dims counts only where it is of a higher kind.
  CHECK(dtype(plain({2}, DType::kHalf), plain({}, DType::kDouble)) == DType::kHalf);
  CHECK(dtype(plain({2}, DType::kInt32), plain({}, DType::kDouble)) == DType::kDouble);
  CHECK(dtype(plain({2}, DType::kInt32), plain({2}, DType::kHalf)) == DType::kHalf);
}

TEST(a_python_number_is_weak) {
  const auto outputs =
      Question().tensor(plain({2}, DType::kInt8)).integer(300).ask("pointwise", kBinary);
  CHECK(outputs.at(0)->dtype == DType::kInt8);
}

TEST(writing_in_place_needs_room) {
  std::vector<std::int64_t> params = kBinary;
  params[4] = 1;
  CHECK(Question().tensor(plain({3})).tensor(plain({2, 3})).ask("pointwise", params).empty());
  const TensorMeta expanded{{2, 3}, {0, 1}, DType::kFloat};
  CHECK(Question().tensor(expanded).tensor(plain({3})).ask("pointwise", params).empty());
  const TensorMeta whole = plain({2, 3}, DType::kInt64);
  CHECK(Question().tensor(whole).tensor(plain({3})).ask("pointwise", params).empty());
  const auto outputs = Question().tensor(plain({2, 3})).tensor(plain({3})).ask("pointwise", params);
  CHECK(outputs.at(0) == plain({2, 3}));
}

TEST(products_are_new) {
  const TensorMeta transposed{{3, 2}, {1, 3}, DType::kFloat};
  CHECK(Question().tensor(plain({4, 3})).tensor(transposed).ask("mm").at(0) == plain({4, 2}));
  CHECK(Question().tensor(plain({4, 3})).tensor(plain({2, 3})).ask("mm").empty());
  CHECK(Question().tensor(plain({4, 3})).tensor(plain({3, 2}, DType::kHalf)).ask("mm").empty());
}

TEST(a_view_may_leave_one_size_open) {
  const TensorMeta tensor = plain({2, 6});
  CHECK(Question().tensor(tensor).integers({-1, 3}).ask("view").at(0) == plain({4, 3}));
  CHECK(Question().tensor(tensor).integers({-1, -1}).ask("view").empty());
  CHECK(Question().tensor(tensor).integers({5, -1}).ask("view").empty());
  CHECK(Question().tensor(tensor).integers({1ll << 40, 1ll << 40}).ask("view").empty());
}

TEST(slices_clamp_their_ends) {
  const auto slice = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    return Question()
        .tensor(plain({5}))
        .integer(0)
        .integer(start)
        .integer(end)
        .integer(step)
        .ask("slice");
  };
  CHECK(slice(-2, INT64_MAX, 1).at(0)->shape == Dims{2});
  CHECK(slice(-100, 100, 2).at(0) == (TensorMeta{{3}, {2}, DType::kFloat}));
  CHECK(slice(4, 1, 1).at(0)->shape == Dims{0});
  CHECK(slice(0, 5, 0).empty());
}

TEST(splits_give_a_short_last_part) {
  const auto parts = Question().tensor(plain({5, 2})).integer(2).integer(0).ask("split");
  CHECK_EQ(parts.size(), 3u);
  CHECK(parts[2] == (TensorMeta{{1, 2}, {2, 1}, DType::kFloat}));
}

TEST(reductions_drop_or_keep_their_dims) {
  const std::vector<std::int64_t> sum{1, 2, -1, 1, 15, 0};
  const TensorMeta whole = plain({2, 3, 4}, DType::kInt32);
  const auto kept = Question().tensor(whole).integers({0, -1}).boolean(true).ask("reduce", sum);
  CHECK(kept.at(0) == plain({1, 3, 1}, DType::kInt64));
  const auto all = Question().tensor(whole).absent().boolean(false).ask("reduce", sum);
  CHECK(all.at(0) == plain({}, DType::kInt64));
  CHECK(Question().tensor(whole).integers({0, 0}).boolean(true).ask("reduce", sum).empty());
  CHECK(Question().tensor(whole).integers({3}).boolean(true).ask("reduce", sum).empty());
}

TEST(statistics_of_half_are_wide_except_on_a_cpu) {
  const TensorMeta half = plain({2, 3}, DType::kHalf);
  const auto outputs =
      Question().tensor(half).integers({3}).absent().absent().integer(0).ask("layer_norm");
  CHECK_EQ(outputs.size(), 3u);
  CHECK(outputs[1] == plain({2, 1}, DType::kHalf));
}

TEST(every_family_has_its_name) {
  CHECK(find_family("mm") != nullptr);
  CHECK(find_family("no such family") == nullptr);
}
