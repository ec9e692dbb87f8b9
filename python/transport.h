#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <vector>

#include "laconic/transport/engine.h"
#include "laconic/transport/transport.h"

namespace laconic::python {

// A Transport whose bytes are moved by a Python object, laconic.transport.Group: rank, size, host and
// timeout; post(kind, root, address, bytes, into), where `into` is 0 or the place that gathered blocks
// are wanted at; arrive() -> the address of the blocks, which lie one
// after the other (one for all ranks after a broadcast), and that of the own one where it lies
// elsewhere, else 0; split(color), interrupt(exception). Any
// thread may call; the interpreter's lock is taken for each call only. What Python raises becomes
// laconic::Error with the code that the exception carries, else kTransport; what is no Exception
// (KeyboardInterrupt) stays what it is. Ranks that post messages of different lengths are not
// recognised: Gloo ends the program.
class PythonTransport final : public Transport {
 public:
  explicit PythonTransport(nanobind::object group);
  ~PythonTransport() override;
  PythonTransport(const PythonTransport&) = delete;
  PythonTransport& operator=(const PythonTransport&) = delete;

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(blocks_.size()); }
  std::uint64_t host() const noexcept override { return host_; }
  // A call through Python and Gloo's threads costs some 100 us.
  int useful_slices() const noexcept override { return 8; }
  void post(const Exchange& exchange, std::span<const std::byte> in) override;
  Blocks arrive() override;
  void retire() override;
  std::chrono::milliseconds timeout() const noexcept override { return timeout_; }
  // Lets handlers of signals run; what they raise, KeyboardInterrupt say, ends the exchange.
  void idle() noexcept override;
  std::unique_ptr<Transport> split(int color) override;

 private:
  nanobind::object group_, post_, arrive_;
  int rank_;
  std::uint64_t host_;
  std::chrono::milliseconds timeout_;
  std::vector<const std::byte*> blocks_;
  struct Posted {
    Kind kind = Kind::kAllGather;
    std::size_t block = 0;  // bytes
  };
  std::array<Posted, kSlots> posted_;  // a ring
  Flight flight_;
};

}  // namespace laconic::python
