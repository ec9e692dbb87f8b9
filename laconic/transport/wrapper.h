#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "laconic/transport/transport.h"

namespace laconic::inline transport {

// A Transport around another: forwards all of it, and wraps what it splits into. Not installed.
class Wrapper : public Transport {
 public:
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  std::uint64_t host() const noexcept override { return inner_.host(); }
  int useful_slices() const noexcept override { return inner_.useful_slices(); }
  void post(const Exchange& exchange, std::span<const std::byte> in) override {
    inner_.post(exchange, in);
  }
  Blocks arrive() override { return inner_.arrive(); }
  void retire() override { inner_.retire(); }
  void keep(Buffer<std::byte> memory) noexcept override { inner_.keep(std::move(memory)); }
  void idle() noexcept override { inner_.idle(); }
  std::chrono::milliseconds timeout() const noexcept override { return inner_.timeout(); }
  std::unique_ptr<Transport> split(int color) final;

 protected:
  // A split's inner transport, and what its ranks are called in the group that was first wrapped.
  struct Part {
    std::unique_ptr<Transport> inner;
    std::vector<int> world;
  };

  explicit Wrapper(Transport& inner);
  explicit Wrapper(Part part)
      : owned_(std::move(part.inner)), inner_(*owned_), world_(std::move(part.world)) {}

  virtual std::unique_ptr<Transport> wrap(Part part) = 0;

  Transport& inner() const noexcept { return inner_; }
  int world_rank(int rank) const noexcept { return world_[static_cast<std::size_t>(rank)]; }

 private:
  std::unique_ptr<Transport> owned_;
  Transport& inner_;
  std::vector<int> world_;
};

}  // namespace laconic::inline transport
