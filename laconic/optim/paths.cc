#include "laconic/optim/paths.h"

#include <algorithm>

namespace laconic::inline optim {

std::string Paths::choose() {
  const bool exact = exact_left_ > 0;
  if (exact) --exact_left_;
  for (SwitchingMean* mean : means_) mean->use(exact ? Path::kDense : Path::kCoded);
  if (choice_ && !exact) choice_->decide();
  return exact ? name(Path::kDense) : choice_ ? choice_->describe() : name(Path::kCoded);
}

bool Paths::went_exactly() const {
  return !means_.empty() && std::ranges::all_of(means_, [](const SwitchingMean* mean) {
    return mean->taken() == Path::kDense;
  });
}

void Paths::restored() {
  for (SwitchingMean* mean : means_) mean->restored();
}

}  // namespace laconic::inline optim
