#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "laconic/device/jobs.h"
#include "laconic/device/memory.h"
#include "laconic/device/self_test.h"

namespace laconic::inline device {
namespace {

constexpr int kTimes = 10;

double seconds_of(Device& device, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  device.settle();
  double best = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = Clock::now();
    work();
    device.settle();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// Every kernel on vectors of its own, all finite, with messages of one chunk.
class SpeedTest {
 public:
  SpeedTest(Device& device, std::size_t elements)
      : device_(device),
        elements_(elements),
        words_(wire::words(elements)),
        left_(device, words_),
        begins_there_(device, (elements + kTile - 1) / kTile),
        floors_(device, begins_there_.size()) {
    for (auto* each : {&g_, &m_, &v_, &x_, &x_sync_, &e_}) {
      *each = Memory<float>(device, elements);
      device.run(Filling{each->data(), elements, 0.5F});
    }
    for (std::size_t at = 0; at < elements; at += kTile) begins_.push_back(at);
    copy_to<std::size_t>(device, begins_, begins_there_.span());
    for (const char* name : {"sign", "int8", "top-k", "fp32"}) {
      codecs_.push_back(make_codec(name));
      messages_.emplace_back(codecs_.back()->message_size(elements));
    }
  }

  std::vector<KernelSpeed> run() {
    add("copy", 8, [this] { device_.copy(g_.data(), x_.data(), 4 * elements_); });
    encode();
    signs();
    decode();
    passes();
    tensors();
    return std::move(all_);
  }

 private:
  using Work = std::function<void()>;
  static constexpr std::size_t kSigns = 0, kInt8 = 1, kTopK = 2, kFp32 = 3;  // of codecs_
  static constexpr double kBit = 1.0 / 8;

  void add(const char* kernel, double bytes, const Work& work) {
    const double moved = bytes * static_cast<double>(elements_);
    all_.push_back({kernel, moved / seconds_of(device_, work) / 1e9});
  }
  FloorTable table() const {
    return {begins_, floors_.span(), elements_,
            device_.is_host() ? begins_.data() : begins_there_.data()};
  }
  Range range() const { return {0, elements_, elements_}; }

  void encode_with(const char* kernel, std::size_t number, double bytes, const Source& source,
                   const Residual& residual) {
    const Codec& codec = *codecs_[number];
    device_.reserve(&codec, 1);
    add(kernel, bytes, [&] {
      device_.encode({.to = {.codec = &codec,
                             .block = codec.exact() ? kTile : codec.block(),
                             .range = range(),
                             .residual = residual,
                             .out = messages_[number].data()},
                      .source = source});
    });
  }
  void encode() {
    const Values values{g_.data(), true};
    encode_with("encode_sign", kSigns, 16 + kBit,
                PendingMomentum{step_, 1, g_.data(), m_.data(), e_.data(), nullptr},
                {e_.data(), nullptr});
    encode_with("encode_integers", kInt8, 13, values, {e_.data(), e_.data()});
    encode_with("encode_top_k", kTopK, 12 + 1.0 / 16, values, {e_.data(), e_.data()});
    encode_with("encode_dense", kFp32, 8, Values{g_.data(), false}, {});
  }

  void signs() {
    std::vector<std::uint8_t> bits(8 * words_), active(wire::activity_size(elements_));
    std::vector<std::uint16_t> shared(elements_);
    const SignMoments moments{{0.9F, 0.1F}, g_.data(), m_.data(), v_.data(), {kTile, &bad_}};
    const kernels::Draw draw{.key = {7, 9}, .rank = 0, .bucket = 0};
    const kernels::Ties ties{true};
    add("draw_signs", 20 + kBit, [&] {
      device_.draw({.range = range(),
                    .source = moments,
                    .draw = draw,
                    .bits = bits.data(),
                    .active = active.data()});
    });
    add("cast_votes", 12 + kBit, [&] {
      device_.vote({.range = range(),
                    .source = LionVotes{lion_.moments, ties, g_.data(), m_.data(), {kTile, &bad_}},
                    .ties = ties,
                    .bits = bits.data(),
                    .active = active.data()});
    });
    add("share_signs", 22, [&] {
      device_.share(ShareSigns{
          .range = range(), .source = moments, .out = shared.data(), .active = active.data()});
    });
  }

  void decode_with(const char* kernel, double bytes, const Sink& sink) {
    add(kernel, bytes + kBit, [&] {
      device_.decode({.codec = codecs_[kSigns].get(),
                      .block = kTile,
                      .range = range(),
                      .message = messages_[kSigns].data(),
                      .sink = sink});
    });
  }
  void decode() {
    const BadBlocks bad{kTile, &bad_};
    const AdamPart whole{0, elements_, step_};
    const kernels::OuterStep outer{
        .rule = kernels::OuterRule::kNesterov, .rate = 0.7F, .momentum = 0.9F};
    decode_with("decode_store", 4, Store{e_.data()});
    decode_with("decode_sgdm", 16, SgdmUpdate{{0.9F, 1e-3F, 1}, m_.data(), x_.data(), bad});
    decode_with("decode_lion", 16, LionUpdate{lion_, m_.data(), x_.data(), bad});
    decode_with("decode_adamw", 24, AdamWUpdate{{&whole, 1}, m_.data(), v_.data(), x_.data(), bad});
    decode_with("decode_moments", 16,
                MomentsUpdate{step_, m_.data(), v_.data(), left_.data(), bad});
    decode_with("decode_momentum_store", 8, MomentumStore{m_.data(), v_.data()});
    decode_with("decode_momentum_apply", 16,
                MomentumApply{step_, table(), m_.data(), v_.data(), x_.data()});
    decode_with("decode_pending_sync", 20,
                PendingSync{step_, 1, table(), m_.data(), v_.data(), x_sync_.data(), x_.data()});
    decode_with("decode_sign_update", 8, SignUpdate{1e-3F, 1, x_.data()});
    decode_with("decode_outer", 20,
                OuterUpdate{outer, m_.data(), nullptr, x_sync_.data(), x_.data()});
  }

  void passes() {
    std::vector<float> sums(begins_.size());
    std::size_t dead = 0;
    add("local_step", 32, [&] {
      device_.run(LocalStep{step_, 1, g_.data(), m_.data(), v_.data(), e_.data(), x_.data(),
                            table(), &bad_});
    });
    add("moments_apply", 20, [&] {
      device_.run(MomentsApply{step_, m_.data(), v_.data(), x_.data(), x_sync_.data(), left_.data(),
                               table()});
    });
    add("update_floors", 4, [&] {
      device_.run(UpdateFloors{v_.data(), table(), 0.01F, true, false, false, &dead});
    });
    add("measure", 4, [&] {
      device_.run(TileSums{g_.data(), elements_, kernels::Norm::kL2, true, sums.data()});
    });
    add("scale", 8, [&] { device_.run(Scaling{g_.data(), elements_, 1.0F}); });
  }

  void tensors() {
    const TensorPart part{.begin = 0,
                          .count = elements_,
                          .step = {1, 1, 1e-8F, 0.01F},
                          .rate = 1e-3F,
                          .m = m_.data(),
                          .v = v_.data(),
                          .x = x_.data()};
    std::vector<TensorPiece> pieces;
    for (const std::size_t at : begins_) pieces.push_back({0, at, std::min(kTile, elements_ - at)});
    std::vector<double> of_x(pieces.size()), of_u(pieces.size());
    add("tensor_norms", 12, [&] {
      device_.run(TensorNorms{{&part, 1}, pieces, of_x.data(), of_u.data()});
    });
    add("tensor_apply", 16, [&] { device_.run(TensorApply{{&part, 1}, pieces}); });
  }

  Device& device_;
  std::size_t elements_, words_;
  Memory<float> g_, m_, v_, x_, x_sync_, e_;
  Memory<std::uint8_t> left_;
  Memory<std::size_t> begins_there_;
  Memory<float> floors_;
  std::vector<std::size_t> begins_;
  std::vector<std::unique_ptr<Codec>> codecs_;
  std::vector<std::vector<std::byte>> messages_;
  Counter bad_{0};
  const kernels::AdamStep step_{0.9F, 0.1F, 0.999F, 0.001F, 1e-3F, 1, 1, 1e-8F};
  const kernels::LionStep lion_{{0.9F, 0.1F, 0.99F, 0.01F}, 1e-3F, 1};
  std::vector<KernelSpeed> all_;
};

}  // namespace

std::vector<KernelSpeed> measure_speeds(Device& device, std::size_t elements) {
  return SpeedTest(device, elements).run();
}

}  // namespace laconic::inline device
