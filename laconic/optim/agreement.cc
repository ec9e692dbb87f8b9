#include "laconic/optim/agreement.h"

#include <algorithm>

namespace laconic::inline optim {

Finish Agreement::on(Finish wish, Rest* rest) {
  const std::uint8_t mine[] = {static_cast<std::uint8_t>(wish),
                               static_cast<std::uint8_t>(rest && rest->misses_any())};
  transport_.gather(std::span<const std::uint8_t>(mine), wishes_);
  bool all_miss = true;
  for (std::size_t at = 0; at < wishes_.size(); at += 2) {
    wish = std::max(wish, static_cast<Finish>(wishes_[at]));
    all_miss = all_miss && wishes_[at + 1] != 0;
  }
  wish = shards_.strongest(wish);
  if (all_miss && wish == Finish::kApply) rest->agree();
  return wish;
}

double Agreement::on_squares(double squares, bool* bad) {
  const double mine[] = {squares, *bad ? 1.0 : 0.0};
  transport_.gather(std::span<const double>(mine), squares_);
  double sum = 0;
  *bad = false;
  for (std::size_t r = 0; r < squares_.size(); r += 2) {
    sum += squares_[r];
    *bad = *bad || squares_[r + 1] != 0;
  }
  double whole[] = {sum / transport_.size(), *bad ? 1.0 : 0.0};
  shards_.sum(whole);
  *bad = whole[1] != 0;
  return whole[0];
}

}  // namespace laconic::inline optim
