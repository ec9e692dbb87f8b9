#include "python/transport.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "laconic/core/error.h"

namespace nb = nanobind;

namespace laconic::python {
namespace {

// The code that a Python exception carries as `code`, by name.
Code code_of(const nb::python_error& error) {
  const nb::object text = nb::getattr(error.value(), "code", nb::none());
  if (!nb::isinstance<nb::str>(text)) return Code::kTransport;
  return code_named(nb::cast<std::string>(text)).value_or(Code::kTransport);
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
      timeout_(static_cast<std::int64_t>(
          1000 * nb::cast<double>(group_.attr("timeout").attr("total_seconds")()))),
      blocks_(nb::cast<std::size_t>(group_.attr("size"))) {}

PythonTransport::~PythonTransport() {
  if (!nb::is_alive()) return;
  nb::gil_scoped_acquire lock;
  arrive_.reset();
  post_.reset();
  group_.reset();
}

void PythonTransport::post(const Exchange& exchange, std::span<const std::byte> in) {
  flight_.check_post(kSlots);
  const std::size_t block = block_bytes(exchange, in.size(), size());
  with_interpreter([&] {
    post_(static_cast<int>(exchange.kind), exchange.root,
          reinterpret_cast<std::uintptr_t>(in.data()), in.size(),
          reinterpret_cast<std::uintptr_t>(exchange.into));
  });
  posted_[flight_.posted++ % kSlots] = {exchange.kind, block};
}

Blocks PythonTransport::arrive() {
  flight_.check_arrive();
  const auto [address, own] = with_interpreter(
      [&] { return nb::cast<std::pair<std::uintptr_t, std::uintptr_t>>(arrive_()); });
  const Posted& posted = posted_[flight_.arrived++ % kSlots];
  const std::size_t stride = posted.kind == Kind::kBroadcast ? 0 : posted.block;
  // An integer: the place of a block that is elsewhere may lie outside of all memory.
  for (std::size_t r = 0; r < blocks_.size(); ++r)
    blocks_[r] = reinterpret_cast<const std::byte*>(address + r * stride);
  if (own != 0) blocks_[static_cast<std::size_t>(rank_)] = reinterpret_cast<const std::byte*>(own);
  return {blocks_.data(), posted.block};
}

void PythonTransport::retire() {
  flight_.check_retire();
  ++flight_.retired;
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
  flight_.check_split(color);
  return with_interpreter(
      [&] { return std::make_unique<PythonTransport>(group_.attr("split")(color)); });
}

}  // namespace laconic::python
