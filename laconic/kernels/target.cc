#include "laconic/kernels/target.h"

#include "laconic/core/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "laconic/kernels/target.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace laconic::kernels::HWY_NAMESPACE {

// Dispatched like every kernel, so it names the target that kernels really run on.
const char* RunsOn() { return hwy::TargetName(HWY_TARGET); }

}  // namespace laconic::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace laconic::kernels {

HWY_EXPORT(RunsOn);

std::string target() { return HWY_DYNAMIC_DISPATCH(RunsOn)(); }

namespace {

void restrict_to(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<std::string> targets() {
  const std::string now = target();
  restrict_to(0);
  std::vector<std::string> names;
  for (const std::int64_t each : hwy::SupportedAndGeneratedTargets())
    names.emplace_back(hwy::TargetName(each));
  if (now != target()) set_target(now);
  return names;
}

void set_target(const std::string& name) {
  const std::string before = target();
  restrict_to(0);
  if (name.empty()) return;
  std::string known;
  for (const std::int64_t each : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(each)) return restrict_to(each);
    known += std::string(known.empty() ? "" : ", ") + hwy::TargetName(each);
  }
  set_target(before);
  fail(Code::kInvalidArgument, "no kernel target \"{}\" on this CPU; there are {}", name, known);
}

}  // namespace laconic::kernels
#endif
