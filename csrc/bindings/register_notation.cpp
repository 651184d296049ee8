// The notation for rules, asked with tensors and arguments as a rule function gets them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "decode.h"
#include "notation/notation.h"
#include "notation/notation_rows.h"
#include "register.h"

namespace shardprop::bindings {
namespace {

// Reads the arguments of one call. Sizes that are expressions get numbers below 0, equal ones for
// expressions that are equal within the call.
class CallReader {
 public:
  // Sizes that nobody compares are not read: who watches what is read of them (size_probe.py) must
  // not take the answer to be theirs alone.
  CallReader(const Pattern& pattern, bool reads_sizes)
      : pattern_(pattern), reads_sizes_(reads_sizes) {}

  NotedTensors tensors(py::handle object, int term, bool is_list) {
    if (!is_list) {
      const auto shape = this->shape(object, term, {});
      const bool is_output = term >= static_cast<int>(pattern_.operands.size());
      return shape || is_output ? NotedTensors{shape} : NotedTensors{};
    }
    NotedTensors all;
    if (object.is_none()) return all;
    const py::tuple items = as_tuple(object, term, {}, "a list of tensors");
    for (std::size_t i = 0; i < items.size(); ++i) {
      all.push_back(shape(items[i], term, static_cast<int>(i)));
    }
    return all;
  }

  NotedArgument argument(py::handle object, int index) const {
    using Kind = NotedArgument::Kind;
    if (object.is_none()) return {};
    if (PyIndex_Check(object.ptr()) != 0) return {Kind::kNumber, {number(object)}};
    if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) {
      throw NotationError("argument \"" + pattern_.arguments[index] +
                          "\": Expected an int, a list of ints or None, got " +
                          Py_TYPE(object.ptr())->tp_name + ".");
    }
    NotedArgument argument{Kind::kNumbers, {}};
    for (const py::handle item : py::tuple(py::reinterpret_borrow<py::object>(object))) {
      argument.numbers.push_back(number(item));
    }
    return argument;
  }

 private:
  // The shape of a tensor's metadata, or the sizes as they are; nothing where there is no tensor.
  std::optional<NotedShape> shape(py::handle object, int term, std::optional<int> element) {
    static const py::handle name = PyUnicode_InternFromString("shape");
    if (object.is_none()) return std::nullopt;
    const bool is_plain = PyTuple_Check(object.ptr()) || PyList_Check(object.ptr());
    auto sizes = py::reinterpret_steal<py::object>(PyObject_GetAttr(object.ptr(), name.ptr()));
    if (!sizes) {
      PyErr_Clear();
      // A number in the place of a tensor is no operand.
      if (!is_plain && PyNumber_Check(object.ptr()) != 0) return std::nullopt;
      sizes = py::reinterpret_borrow<py::object>(object);
    }
    NotedShape shape;
    for (const py::handle size : as_tuple(sizes, term, element, "a tensor")) {
      shape.push_back(this->size(size));
    }
    return shape;
  }

  static py::tuple as_tuple(py::handle object, int term, std::optional<int> element,
                            const char* what) {
    if (PyTuple_Check(object.ptr())) return py::reinterpret_borrow<py::tuple>(object);
    if (PyList_Check(object.ptr())) return py::tuple(py::reinterpret_borrow<py::list>(object));
    throw FitError(
        std::string("Expected ") + what + ", got " + Py_TYPE(object.ptr())->tp_name + ".", term,
        element);
  }

  NotedSize size(py::handle object) {
    if (!reads_sizes_) return --unread_;
    if (PyLong_Check(object.ptr())) {
      // An int that overrules `__index__` may want to know that it is read (size_probe.py).
      const py::object plain = PyLong_CheckExact(object.ptr())
                                   ? py::reinterpret_borrow<py::object>(object)
                                   : object.attr("__index__")();
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(plain.ptr(), &overflow);
      if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      if (overflow != 0 || value < 0) unsupported("size that is negative or above 64 bits");
      return value;
    }
    const auto text = environment().read_size(object).cast<std::pair<std::int64_t, std::string>>();
    const auto found = std::find(expressions_.begin(), expressions_.end(), text.second);
    const auto index = found - expressions_.begin();
    if (found == expressions_.end()) expressions_.push_back(text.second);
    return -1 - static_cast<NotedSize>(index);
  }

  static std::int64_t number(py::handle object) {
    if (!PyLong_Check(object.ptr())) return kUnread;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow != 0) return overflow > 0 ? INT64_MAX : INT64_MIN + 1;
    return value == kUnread ? kUnread + 1 : value;
  }

  const Pattern& pattern_;
  const bool reads_sizes_;
  NotedSize unread_ = 0;  // each another expression
  std::vector<std::string> expressions_;
};

// The key of a cell in the dict of placements: a number, or a tuple of what it asks.
py::object cell_key(const NotedCell& cell) {
  constexpr int kFirstPartial = 1, kFirstPlaceholder = 16;
  const Placement p = cell.placement;
  if (cell.is_constrained()) {
    return py::make_tuple(p.dim, cell.even, cell.min_local, cell.multiple_of);
  }
  if (p.is_partial()) return py::int_(kFirstPartial + p.reduce_op());
  if (p.kind == Kind::kPlaceholder) return py::int_(kFirstPlaceholder + p.dim);
  return py::int_(0);
}

// Metadata of a tensor is a tuple too, but has a shape.
bool is_list_of_tensors(py::handle object) {
  return (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) &&
         !py::hasattr(object, "shape");
}

class BoundPattern {
 public:
  explicit BoundPattern(const std::string& text) : pattern_(parse_notation(text)) {}

  [[nodiscard]] const Pattern& pattern() const { return pattern_; }

  // `cells` makes the objects of cells, and keeps them.
  py::list rows(const py::list& operands, const py::list& arguments, bool keepdim,
                py::handle outputs, const py::dict& cells) const {
    const auto rows = made(rows_of, read(operands, arguments, keepdim, outputs));
    py::list all(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      py::list row(rows[r].size());
      for (std::size_t c = 0; c < rows[r].size(); ++c) row[c] = object_of(rows[r][c], cells);
      all[r] = std::move(row);
    }
    return all;
  }

  std::vector<std::string> origins(const py::list& operands, const py::list& arguments,
                                   bool keepdim, py::handle outputs) const {
    return made(origins_of, read(operands, arguments, keepdim, outputs));
  }

 private:
  template <typename Made>
  std::vector<Made> made(std::vector<Made> (*make)(const Pattern&, const NotedCall&),
                         const NotedCall& call) const {
    try {
      return make(pattern_, call);
    } catch (const NeedsSize&) {
      unsupported("notation on a symbolic size");
    }
  }

  NotedCall read(const py::list& operands, const py::list& arguments, bool keepdim,
                 py::handle outputs) const {
    const std::size_t terms = pattern_.operands.size();
    const bool takes_none = operands.empty() && may_be_nothing(pattern_.operands);
    if ((operands.size() != terms && !takes_none) ||
        arguments.size() != pattern_.arguments.size()) {
      throw std::invalid_argument("Expected an object per operand and argument of the pattern.");
    }
    NotedCall call;
    CallReader reader(pattern_, pattern_.compares_sizes || !outputs.is_none());
    call.operands.resize(terms);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const int term = static_cast<int>(i);
      const Term& wanted = pattern_.operands[i];
      const bool is_list = wanted.is_list || (wanted.is_any && is_list_of_tensors(operands[i]));
      call.operands[i] = reader.tensors(operands[i], term, is_list);
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      call.arguments.push_back(reader.argument(arguments[i], static_cast<int>(i)));
    }
    call.keepdim = keepdim;
    if (!outputs.is_none()) read_outputs(reader, outputs, call);
    return call;
  }

  void read_outputs(CallReader& reader, py::handle outputs, NotedCall& call) const {
    const py::tuple given(py::reinterpret_borrow<py::object>(outputs));
    call.no_outputs = given.empty() && may_be_nothing(pattern_.outputs);
    if (call.no_outputs) return;
    if (given.size() != pattern_.outputs.size()) {
      throw NotationError("Expected the shapes of " + std::to_string(pattern_.outputs.size()) +
                          " outputs, got " + std::to_string(given.size()) + ".");
    }
    call.outputs.emplace();
    for (std::size_t i = 0; i < given.size(); ++i) {
      const int term = static_cast<int>(pattern_.operands.size() + i);
      call.outputs->push_back(reader.tensors(given[i], term, pattern_.outputs[i].is_list));
    }
  }

  static py::object object_of(const NotedCell& cell, const py::dict& cells) {
    if (cell.placement.kind == Kind::kAbsent) return py::none();
    // Not PyDict_GetItem: a subclass of dict makes what is missing.
    PyObject* found = PyObject_GetItem(cells.ptr(), cell_key(cell).ptr());
    if (found == nullptr) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(found);
  }

  const Pattern pattern_;
};

std::vector<std::string> kinds(const std::vector<Term>& terms) {
  std::vector<std::string> names;
  for (const Term& term : terms) {
    const bool is_scalar = term.dims.empty() && term.mark == Mark::kNone;
    names.emplace_back(term.is_any    ? "any"
                       : term.is_list ? "list"
                       : is_scalar    ? "scalar"
                                      : "tensor");
  }
  return names;
}

// Lives as long as the process, as every Python object that is kept in C++ does here.
py::handle error_type;

void raise(const NotationError& error) {
  py::object position = py::none(), term = py::none(), element = py::none();
  if (error.position) position = py::int_(*error.position);
  if (const auto* unfit = dynamic_cast<const FitError*>(&error)) {
    term = py::int_(unfit->term);
    if (unfit->element) element = py::int_(*unfit->element);
  }
  PyErr_SetObject(error_type.ptr(), py::make_tuple(error.what(), position, term, element).ptr());
}

}  // namespace

void register_notation(py::module_& module) {
  // Its arguments: what is wrong, and where: a character of the text; a term, and of a list of
  // tensors which one.
  error_type = py::exception<NotationError>(module, "NotationError", PyExc_ValueError).release();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const NotationError& caught) {
      raise(caught);
    }
  });
  py::class_<BoundPattern>(module, "Pattern", "A rule in the notation, parsed.")
      .def(py::init<const std::string&>(), py::arg("text"))
      .def_property_readonly("text", [](const BoundPattern& p) { return to_string(p.pattern()); })
      .def_property_readonly("arguments",
                             [](const BoundPattern& p) { return p.pattern().arguments; })
      .def_property_readonly("operands",
                             [](const BoundPattern& p) { return kinds(p.pattern().operands); })
      .def_property_readonly("outputs",
                             [](const BoundPattern& p) { return kinds(p.pattern().outputs); })
      .def_property_readonly("ranks",
                             [](const BoundPattern& p) {
                               std::vector<std::optional<int>> ranks;
                               for (const Term& term : p.pattern().operands) {
                                 ranks.push_back(rank_of(p.pattern(), term));
                               }
                               return ranks;
                             })
      .def_property_readonly("needs_outputs",
                             [](const BoundPattern& p) { return p.pattern().needs_outputs; })
      .def("rows", &BoundPattern::rows, py::arg("operands"), py::arg("arguments"),
           py::arg("keepdim"), py::arg("outputs"), py::arg("cells"))
      .def("origins", &BoundPattern::origins, py::arg("operands"), py::arg("arguments"),
           py::arg("keepdim"), py::arg("outputs"));
}

}  // namespace shardprop::bindings
