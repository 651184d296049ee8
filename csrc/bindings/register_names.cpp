// The numbers and names that Python and the core have in common, exported so that they are written
// down once.
#include <pybind11/pybind11.h>

#include <array>
#include <initializer_list>
#include <span>

#include "bound_problem.h"
#include "metadata/meta_call.h"
#include "metadata/meta_params.h"
#include "optimal/cost_model.h"
#include "optimal/plan_moves.h"
#include "register.h"
#include "torch_plan/redistribute.h"

namespace shardprop::bindings {
namespace {

struct Member {
  template <class Enum>
  constexpr Member(const char* its_name, Enum its_value)
      : name(its_name), value(static_cast<int>(its_value)) {}

  const char* name;
  int value;
};

// `base` is IntEnum or IntFlag. The core takes and gives plain ints: py::native_enum would make
// casters too, nine of them, which take 20 kilobytes.
void define_enum(py::module_& module, const char* name, const char* base, const char* doc,
                 std::initializer_list<Member> members) {
  py::dict values;
  for (const Member& member : members) values[member.name] = member.value;
  const py::object made = py::module_::import("enum").attr(base)(
      name, values, py::arg("module") = module.attr("__name__"));
  made.attr("__doc__") = doc;
  module.attr(name) = made;
}

constexpr const char *kNumber = "IntEnum", *kBits = "IntFlag";

void define_problem_enums(py::module_& module) {
  define_enum(module, "Verdict", kNumber, "What came of a search.",
              {{"FOUND", Verdict::kFound},
               {"NO_STRATEGY", Verdict::kNoStrategy},
               {"NO_IN_PLACE_STRATEGY", Verdict::kNoInPlaceStrategy},
               {"UNREACHABLE", Verdict::kUnreachable},
               {"TOO_LARGE", Verdict::kTooLarge}});
  define_enum(module, "Option", kBits, "What torch does differently for an op and its rule.",
              {{"IN_PLACE", kInPlace},
               {"ALLOW_UNEVEN", kAllowUneven},
               {"PREFERS_NO_REDISTRIBUTE", kPrefersNoRedistribute},
               {"FORCE_GRAPH", kForceGraph},
               {"KEEP_ABSENT", kKeepAbsent},
               {"ALWAYS_SHARDS", kAlwaysShards},
               {"ASK_KINDS", kAskKinds}});
  define_enum(module, "PlanStatus", kNumber, "What came of torch's own planning.",
              {{"FOUND", PlanStatus::kFound},
               {"UNREACHABLE", PlanStatus::kUnreachable},
               {"NOT_DECODABLE", PlanStatus::kNotDecodable}});
}

void define_metadata_enums(py::module_& module) {
  define_enum(module, "ValueKind", kBits, "What an argument may be.",
              {{"NONE", kNone},
               {"TENSOR", kTensor},
               {"TENSORS", kTensorList},
               {"BOOL", kBool},
               {"INT", kInt},
               {"FLOAT", kFloat},
               {"INTS", kIntList},
               {"DTYPE", kDTypeValue},
               {"FORMAT", kFormatValue},
               {"LAYOUT", kLayout},
               {"DEVICE", kDevice},
               {"TEXT", kText},
               {"SCALARS", kScalarList},
               {"FALSE", kFalse}});
  define_enum(module, "Category", kBits, "Kinds of dtypes that an op is known for.",
              {{"BOOL", kBools}, {"INT", kInts}, {"FLOAT", kFloats}, {"COMPLEX", kComplexes}});
  define_enum(module, "Promotion", kNumber, "What becomes of the promoted dtype of a pointwise op.",
              {{"DEFAULT", pointwise_params::kDefault},
               {"INT_TO_FLOAT", pointwise_params::kIntToFloat},
               {"TO_BOOL", pointwise_params::kToBool},
               {"INT_TO_FLOAT_UNLESS_ROUNDED", pointwise_params::kIntToFloatUnlessRounded}});
  define_enum(module, "PointwiseFlag", kBits, "What else is to be known of a pointwise op.",
              {{"IN_PLACE", pointwise_params::kInPlace},
               {"SAME_DTYPE", pointwise_params::kSameDType},
               {"ANY_CAST", pointwise_params::kAnyCast},
               {"BOOL_FIRST", pointwise_params::kBoolFirst},
               {"BACKWARDS", pointwise_params::kBackwards},
               {"UNIFORM", pointwise_params::kUniform},
               {"NO_DIMS", pointwise_params::kNoDims},
               {"LIMITED", pointwise_params::kLimited},
               {"BOOL_SECOND", pointwise_params::kBoolSecond},
               {"ROW_MAJOR", pointwise_params::kRowMajor}});
  define_enum(module, "ReductionResult", kNumber, "The dtype that a reduction gives.",
              {{"OWN", reduction_params::kOwn},
               {"INT_TO_INT64", reduction_params::kIntToInt64},
               {"TO_BOOL", reduction_params::kToBool},
               {"TO_INT64", reduction_params::kToInt64}});
  define_enum(module, "ReductionFlag", kBits, "What else is to be known of a reduction.",
              {{"NO_DIMS_IS_ODD", reduction_params::kNoDimsIsOdd},
               {"NEVER_NARROWS", reduction_params::kNeverNarrows}});
}

void define_names(py::module_& module, const char* name, std::span<const char* const> names) {
  py::tuple all(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) all[i] = py::str(names[i]);
  module.attr(name) = all;
}

// The names of the first `Count` members of an enum.
template <class Enum, int Count>
void define_names(py::module_& module, const char* name) {
  std::array<const char*, Count> names;
  for (int i = 0; i < Count; ++i) names[i] = name_of(static_cast<Enum>(i));
  define_names(module, name, names);
}

}  // namespace

void register_names(py::module_& module) {
  define_problem_enums(module);
  define_metadata_enums(module);
  define_names<Collective, kCollectives>(module, "COLLECTIVES");
  define_names<MoveKind, kMoveKinds>(module, "STEPS");
  define_names(module, "REDUCE_OPS", kReduceOpNames);
  define_names(module, "DTYPES", kDTypeNames);
  define_names(module, "MEMORY_FORMATS", kFormatNames);
}

}  // namespace shardprop::bindings
