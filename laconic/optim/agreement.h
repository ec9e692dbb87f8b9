#pragma once

#include <vector>

#include "laconic/optim/rest.h"
#include "laconic/optim/shards.h"

namespace laconic::inline optim {

// What all ranks decide together at the end of a step, in one small round each.
class Agreement {
 public:
  // Both outlive this.
  Agreement(Transport& transport, Shards& shards) : transport_(transport), shards_(shards) {}

  // The strongest wish of any rank; if that is to apply, what rests is agreed on too. `rest`: null
  // where nothing rests.
  Finish on(Finish wish, Rest* rest);
  // The mean over ranks of the squares of a gradient, summed over the shards of the model. *bad: it is
  // not finite here; then, on some rank.
  double on_squares(double squares, bool* bad);

 private:
  Transport& transport_;
  Shards& shards_;
  std::vector<std::uint8_t> wishes_;
  std::vector<double> squares_;
};

}  // namespace laconic::inline optim
