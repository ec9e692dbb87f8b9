#include "python/transport.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "laconic/core/error.h"

namespace nb = nanobind;

namespace laconic::python {
namespace {

constexpr std::size_t kRoom = 2 * Transport::kInFlight + 2;

// The code that a Python exception carries as `code`, by name.
Code code_of(const nb::python_error& error) {
  const nb::object text = nb::getattr(error.value(), "code", nb::none());
  for (int code = 0; code <= static_cast<int>(Code::kMismatch); ++code)
    if (nb::isinstance<nb::str>(text) &&
        nb::cast<std::string>(text) == name(static_cast<Code>(code)))
      return static_cast<Code>(code);
  return Code::kTransport;
}

template <typename Call>
auto with_interpreter(Call call) {
  nb::gil_scoped_acquire lock;
  try {
    return call();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    const Code code = code_of(error);
    const std::string text = nb::cast<std::string>(nb::str(error.value()));
    throw Error(code, text);
  }
}

}  // namespace

PythonTransport::PythonTransport(nb::object group)
    : group_(std::move(group)),
      post_(group_.attr("post")),
      arrive_(group_.attr("arrive")),
      rank_(nb::cast<int>(group_.attr("rank"))),
      host_(nb::cast<std::uint64_t>(group_.attr("host"))),
      blocks_(nb::cast<std::size_t>(group_.attr("size"))),
      in_flight_(kRoom) {}

PythonTransport::~PythonTransport() {
  if (!nb::is_alive()) return;
  nb::gil_scoped_acquire lock;
  arrive_.reset();
  post_.reset();
  group_.reset();
}

void PythonTransport::post(const Exchange& exchange, std::span<const std::byte> in) {
  if (posted_ - retired_ >= kRoom)
    fail(Code::kInvalidArgument, "{} exchanges are in flight: retire some first",
         posted_ - retired_);
  if (exchange.kind == Kind::kAllToAll && in.size() % blocks_.size() != 0)
    fail(Code::kInvalidArgument, "`in` has {} bytes, which {} ranks do not divide", in.size(),
         blocks_.size());
  in_flight_[posted_ % kRoom] =
      exchange.kind == Kind::kAllToAll ? in.size() / blocks_.size() : in.size();
  with_interpreter([&] {
    post_(static_cast<int>(exchange.kind), exchange.root,
          reinterpret_cast<std::uintptr_t>(in.data()), in.size());
  });
  ++posted_;
}

Blocks PythonTransport::arrive() {
  if (arrived_ == posted_) fail(Code::kInvalidArgument, "nothing is posted that could arrive");
  const std::size_t block = in_flight_[arrived_ % kRoom];
  const auto [address, stride] =
      with_interpreter([&] { return nb::cast<std::pair<std::uintptr_t, std::size_t>>(arrive_()); });
  const auto* first = reinterpret_cast<const std::byte*>(address);
  for (std::size_t r = 0; r < blocks_.size(); ++r) blocks_[r] = first + r * stride;
  ++arrived_;
  return {blocks_.data(), block};
}

void PythonTransport::retire() {
  if (retired_ == arrived_) fail(Code::kInvalidArgument, "nothing arrived that could retire");
  ++retired_;
}

void PythonTransport::idle() noexcept {
  nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) return;
  try {
    nb::raise_python_error();
  } catch (nb::python_error& raised) {
    try {
      group_.attr("interrupt")(raised.value());
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("laconic");
    }
  }
}

std::unique_ptr<Transport> PythonTransport::split(int color) {
  if (color < 0 || posted_ != retired_)
    fail(Code::kInvalidArgument,
         "split({}) with {} exchanges in flight: it needs a color of at "
         "least 0 and none",
         color, posted_ - retired_);
  return with_interpreter(
      [&] { return std::make_unique<PythonTransport>(group_.attr("split")(color)); });
}

}  // namespace laconic::python
