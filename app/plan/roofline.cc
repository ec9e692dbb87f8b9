#include "app/plan/roofline.h"

#include <algorithm>

#include "app/sweeps.h"
#include "laconic/collective/mean.h"
#include "laconic/core/error.h"
#include "laconic/optim/method.h"

namespace laconic::app::plan {
namespace {

constexpr double kPcie = 25e9;  // bytes per second, one way: PCIe 4.0 x16 as copies reach it
constexpr double kBit = 1.0 / 8;

}  // namespace

const std::vector<GpuMemory>& gpu_memories() {
  static const std::vector<GpuMemory> all = {
      {"t4", 320},    {"v100", 900},       {"l4", 300},    {"a10", 600},   {"l40s", 864},
      {"a100", 1555}, {"a100-80gb", 2039}, {"h100", 3350}, {"h200", 4800}, {"b200", 8000}};
  return all;
}

laconic::plan::Speeds roofline_speeds(std::string_view gpu) {
  const auto found = std::ranges::find(gpu_memories(), gpu, &GpuMemory::name);
  if (found == gpu_memories().end())
    fail(Code::kInvalidArgument, "no GPU `{}`: laconic plan --help lists those that are known",
         gpu);
  const double rate = found->gb_per_second * 1e9;
  Arrays arrays(64);
  laconic::plan::Speeds s;
  s.copy = 8 / rate;
  s.narrow = s.widen = 6 / rate;
  s.encode = (12 + kBit) / rate;
  s.decode = kBit / rate;
  s.draw = (4 + kBit) / rate;
  s.byte += 1 / kPcie;  // to the host or back
  const auto set = [&](const std::string& name, double part, double& seconds) {
    const Sweep* sweep = sweep_named(name);
    if (sweep == nullptr) return;
    double bytes = 0;
    for (const kernels::Traffic& one : sweep->traffic(arrays)) bytes += one.bytes_per_element();
    seconds = std::max(0.0, bytes / rate - part);
  };
  for (auto& [name, cost] : s.methods) {
    const Method& method = method_named(name);
    const bool signs = method.codec == "random-sign" || method.codec == kVote;
    set(method.sweeps.exact, 0, cost.exact.after);
    set(method.sweeps.before, signs ? 0 : s.encode, cost.coded.before);
    set(method.sweeps.after, s.decode, cost.coded.after);
    set(method.sweeps.local, 0, cost.local);
  }
  return s;
}

}  // namespace laconic::app::plan
