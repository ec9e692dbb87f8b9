// laconic._core: the library as Python's package uses it. It knows nothing of torch: memory comes
// as DLPack, and the bytes of other ranks through a Python object.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "laconic/core/buffer.h"
#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/kernels/target.h"
#include "laconic/transport/emulated.h"
#include "laconic/transport/threads.h"
#include "python/optimizer.h"
#include "python/transport.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace laconic::python {
namespace {

// Raises what laconic.errors made of the code; a plain RuntimeError before it was given.
void translate(const std::exception_ptr& pointer, void* payload) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    nb::object raise = nb::borrow(static_cast<PyObject*>(payload)).attr("_error");
    nb::object value = raise(name(error.code()), error.what());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())), value.ptr());
  }
}

// Zeroed memory in large pages. Tensors over parts of it keep it alive, and each has a storage of
// its own, so that whoever saves one of them saves nothing else.
class Memory {
 public:
  explicit Memory(std::size_t count) : values_(std::make_shared<Buffer<float>>(count)) {}

  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(values_->data()); }

  nb::ndarray<float> part(std::size_t begin, const std::vector<std::size_t>& shape,
                          const std::vector<std::int64_t>& strides) const {
    if (shape.size() != strides.size())
      fail(Code::kInvalidArgument, "{} sizes and {} strides", shape.size(), strides.size());
    std::size_t last = begin;
    bool empty = false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      empty = empty || shape[i] == 0;
      if (!empty) last += (shape[i] - 1) * static_cast<std::size_t>(strides[i]);
    }
    if (!empty && last >= values_->size())
      fail(Code::kInvalidArgument, "a part that begins at {} does not lie inside {} elements",
           begin, values_->size());
    using Owner = std::shared_ptr<Buffer<float>>;
    nb::capsule owner(new Owner(values_), [](void* p) noexcept { delete static_cast<Owner*>(p); });
    return {values_->data() + begin, shape.size(), shape.data(), owner, strides.data()};
  }

 private:
  std::shared_ptr<Buffer<float>> values_;
};

// XXH3 of each (address, bytes). REQUIRES: readable memory.
std::vector<std::uint64_t> hashes(
    const std::vector<std::pair<std::uintptr_t, std::size_t>>& pieces) {
  nb::gil_scoped_release unlocked;
  std::vector<std::uint64_t> all;
  all.reserve(pieces.size());
  for (const auto& [address, bytes] : pieces)
    all.push_back(hash64({reinterpret_cast<const std::byte*>(address), bytes}));
  return all;
}

std::unique_ptr<Transport> emulated(Transport& inner, double bytes_per_second, double latency) {
  auto network =
      std::make_shared<Network>(inner.size(), 1, Link{bytes_per_second, latency}, Link{});
  return make_emulated(inner, std::move(network));
}

}  // namespace

NB_MODULE(_core, module) {
  nb::register_exception_translator(translate, module.ptr());
  nb::class_<Transport>(module, "Transport")
      .def_prop_ro("rank", &Transport::rank)
      .def_prop_ro("size", &Transport::size);
  nb::class_<PythonTransport, Transport>(module, "PythonTransport").def(nb::init<nb::object>());
  module.def("alone", [] { return std::move(make_threads(1).front()); });
  module.def("emulated", &emulated, "inner"_a, "bytes_per_second"_a, "latency"_a,
             nb::keep_alive<0, 1>());
  nb::class_<Memory>(module, "Memory")
      .def(nb::init<std::size_t>(), "count"_a)
      .def_prop_ro("address", &Memory::address)
      .def("part", &Memory::part, "begin"_a, "shape"_a, "strides"_a);
  module.def("hashes", &hashes, "pieces"_a);
  module.def(
      "hash64", [](Floats values) { return hash64(std::as_bytes(span_of(values))); },
      nb::arg("values").noconvert(), nb::call_guard<nb::gil_scoped_release>());
  bind_device(module);
  bind_means(module);
  bind_methods(module);
  bind_optimizer(module);
  bind_plan(module);
}

}  // namespace laconic::python
