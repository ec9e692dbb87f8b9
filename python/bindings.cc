// laconic._core: the library as Python's package uses it. It knows nothing of torch: memory comes
// as DLPack, and the bytes of other ranks through a Python object.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

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

// Zeroed memory in large pages, as DLPack.
nb::ndarray<float, nb::ndim<1>> zeros(std::size_t count) {
  auto* memory = new Buffer<float>(count);
  nb::capsule owner(memory, [](void* p) noexcept { delete static_cast<Buffer<float>*>(p); });
  return {memory->data(), {count}, owner};
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
  module.def("zeros", &zeros, "count"_a);
  module.def(
      "hash64", [](Floats values) { return hash64(std::as_bytes(span_of(values))); },
      nb::arg("values").noconvert(), nb::call_guard<nb::gil_scoped_release>());
  bind_means(module);
  bind_optimizer(module);
  bind_plan(module);
}

}  // namespace laconic::python
