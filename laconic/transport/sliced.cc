#include "laconic/transport/sliced.h"

#include <algorithm>

#include "laconic/transport/wrapper.h"

namespace laconic::inline transport {
namespace {

class Sliced final : public Wrapper {
 public:
  template <typename Inner>
  Sliced(Inner&& inner, int most) : Wrapper(std::forward<Inner>(inner)), most_(most) {}

  int useful_slices() const noexcept override { return std::min(most_, inner().useful_slices()); }

 private:
  std::unique_ptr<Transport> wrap(Part part) override {
    return std::make_unique<Sliced>(std::move(part), most_);
  }

  const int most_;
};

}  // namespace

std::unique_ptr<Transport> make_sliced(Transport& inner, int most) {
  return std::make_unique<Sliced>(inner, most);
}

}  // namespace laconic::inline transport
