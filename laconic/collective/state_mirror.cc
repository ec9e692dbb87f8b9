#include "laconic/collective/state_mirror.h"

#include <utility>

#include "laconic/device/memory.h"

namespace laconic::inline collective {

std::vector<State> StateMirror::show(std::vector<State> states) {
  if (device_.is_host()) return states;
  const bool first = copies_.empty();
  std::size_t next = 0;
  for (State& one : states) {
    if (one.of_host || one.values.empty()) continue;
    if (first) copies_.push_back({one.values, Buffer<float>(one.values.size())});
    Copy& copy = copies_[next++];
    copy_from<float>(device_, copy.there, copy.here.span());
    one.values = copy.here.span();
    one.of_host = true;
  }
  shown_ = true;
  return states;
}

void StateMirror::take_up() {
  if (!std::exchange(shown_, false)) return;
  for (const Copy& copy : copies_) copy_to<float>(device_, copy.here.span(), copy.there);
}

}  // namespace laconic::inline collective
