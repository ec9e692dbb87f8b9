#include <algorithm>

#include "laconic/device/host.h"
#include "laconic/kernels/sign.h"
#include "laconic/kernels/update.h"

namespace laconic::inline device {
namespace {

constexpr std::size_t kWord = 64;

// work(part, begin, count) for what a piece has of each part.
template <typename Work>
void for_each_part(std::span<const TensorPart> parts, const TensorPiece& piece, const Work& work) {
  std::size_t part = piece.part, begin = piece.begin, left = piece.count;
  for (;;) {
    const TensorPart& one = parts[part];
    const std::size_t count = std::min(left, one.begin + one.count - begin);
    work(one, begin, count);
    left -= count;
    if (left == 0) return;
    begin = parts[++part].begin;
  }
}

// work(step, begin, count) for the stretches of a part that have one floor each.
template <typename Work>
void for_each_step(const TensorPart& part, std::size_t begin, std::size_t count, const Work& work) {
  if (part.floors.begins.empty()) return work(part.step, begin, count);
  part.floors.for_each(begin, count, [&](std::size_t at, std::size_t n, float floor) {
    kernels::TrustStep step = part.step;
    step.floor = floor;
    work(step, at, n);
  });
}

// work(begin, count) for the stretches of a range that are not marked in `left`.
template <typename Work>
void for_each_unmarked(const std::uint8_t* left, std::size_t begin, std::size_t count,
                       const Work& work) {
  const auto is_marked = [](std::uint8_t word) { return word != 0; };
  if (std::none_of(left + begin / kWord, left + (begin + count - 1) / kWord + 1, is_marked))
    return work(begin, count);
  const std::size_t last = begin + count;
  for (std::size_t at = begin; at < last;) {
    const std::size_t end = std::min((at / kWord + 1) * kWord, last);
    if (!is_marked(left[at / kWord])) work(at, end - at);
    at = end;
  }
}

void measure(const TensorNorms& pass, std::size_t piece) {
  kernels::Lanes of_u, of_x;
  std::size_t done = 0;
  for_each_part(pass.parts, pass.pieces[piece],
                [&](const TensorPart& part, std::size_t begin, std::size_t count) {
                  for_each_step(
                      part, begin, count,
                      [&](const kernels::TrustStep& step, std::size_t from, std::size_t n) {
                        kernels::trust_squares(step, part.m + from, part.v + from, part.x + from, n,
                                               done, of_u, of_x);
                        done += n;
                      });
                });
  pass.u[piece] = static_cast<double>(kernels::fold(of_u));
  pass.x[piece] = static_cast<double>(kernels::fold(of_x));
}

void move(const TensorApply& pass, std::size_t piece) {
  for_each_part(pass.parts, pass.pieces[piece],
                [](const TensorPart& part, std::size_t begin, std::size_t count) {
                  if (part.rate == 0) return;
                  for_each_unmarked(part.left, begin, count, [&](std::size_t at, std::size_t all) {
                    for_each_step(
                        part, at, all,
                        [&](const kernels::TrustStep& step, std::size_t from, std::size_t n) {
                          kernels::trust_apply(step, part.rate, part.m + from, part.v + from,
                                               part.x + from, n);
                        });
                  });
                });
}

}  // namespace

void HostDevice::run_all(const TensorNorms& pass) {
  pool_.run(pass.pieces.size(), [&](std::size_t piece, int) { measure(pass, piece); });
}

void HostDevice::run_all(const TensorApply& pass) {
  pool_.run(pass.pieces.size(), [&](std::size_t piece, int) { move(pass, piece); });
}

}  // namespace laconic::inline device
