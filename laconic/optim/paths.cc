#include "laconic/optim/paths.h"

#include <algorithm>

namespace laconic::inline optim {

std::string Paths::choose(Step::Kind kind) {
  const bool coded = kind == Step::Kind::kCoded;
  if ((coded ? means_ : dense_).empty()) return {};
  const bool exact = exact_left_ > 0;
  if (exact) --exact_left_;
  for (SwitchingMean* mean : coded ? means_ : dense_)
    mean->use(exact ? Path::kDense : Path::kCoded);
  const bool chooses = choice_ && !exact && coded;
  if (chooses) choice_->decide();
  return exact ? name(Path::kDense) : chooses ? choice_->describe() : name(Path::kCoded);
}

bool Paths::went_exactly() const {
  return !means_.empty() && std::ranges::all_of(means_, [](const SwitchingMean* mean) {
    return mean->taken() == Path::kDense;
  });
}

void Paths::restored() {
  for (SwitchingMean* mean : means_) mean->restored();
  for (SwitchingMean* mean : dense_) mean->restored();
}

}  // namespace laconic::inline optim
