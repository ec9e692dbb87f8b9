#include "laconic/device/device.h"

#include <algorithm>

#include "laconic/core/error.h"

namespace laconic::inline device {
namespace {

constexpr std::string_view kCuda = "cuda";

}  // namespace

bool names_device(std::string_view name) noexcept {
  if (name == "cpu" || name == "emulated" || name == kCuda) return true;
  if (!name.starts_with(kCuda) || name.size() < 6 || name.size() > 8 || name[4] != ':') return false;
  return std::ranges::all_of(name.substr(5), [](char c) { return c >= '0' && c <= '9'; });
}

std::unique_ptr<Device> make_device(std::string_view name, int threads) {
  if (name == "cpu") return make_host_device(threads);
  fail(Code::kInvalidArgument, "there is no device \"{}\": cpu, emulated, cuda or cuda:k", name);
}

}  // namespace laconic::inline device
