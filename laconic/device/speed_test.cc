#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "laconic/device/jobs.h"
#include "laconic/device/memory.h"
#include "laconic/device/self_test.h"

namespace laconic::inline device {
namespace {

constexpr int kTimes = 10;
constexpr double kSign = 1.0 / 8;

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

}  // namespace

std::vector<KernelSpeed> measure_speeds(Device& device, std::size_t elements) {
  const Memory<float> g(device, elements), m(device, elements), v(device, elements),
      x(device, elements), pending(device, elements), x_sync(device, elements);
  for (const auto* each : {&g, &m, &v, &x, &x_sync})
    device.run(Filling{each->data(), elements, 0.5F});
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < elements; at += kTile) begins.push_back(at);
  const Memory<std::size_t> begins_there(device, begins.size());
  copy_to<std::size_t>(device, begins, begins_there.span());
  const Memory<float> floors(device, begins.size());
  const FloorTable table{begins, floors.span(), elements,
                         device.is_host() ? begins.data() : begins_there.data()};
  const kernels::AdamStep step{0.9F, 0.1F, 0.999F, 0.001F, 1e-3F, 1, 1, 1e-8F};
  const auto codec = make_codec("sign");
  const Range range{0, elements, elements};
  std::vector<std::byte> message(codec->message_size(elements));
  device.reserve(codec.get(), 1);
  Counter bad{0};

  std::vector<KernelSpeed> all;
  const auto add = [&](const char* kernel, double bytes, const std::function<void()>& work) {
    all.push_back({kernel, bytes * static_cast<double>(elements) / seconds_of(device, work) / 1e9});
  };
  add("copy", 8, [&] { device.copy(g.data(), x.data(), 4 * elements); });
  add("encode_sign", 16 + kSign, [&] {
    device.encode(
        {.to = {.codec = codec.get(),
                .block = kTile,
                .range = range,
                .residual = {pending.data(), nullptr},
                .out = message.data()},
         .source = PendingMomentum{step, 1, g.data(), m.data(), pending.data(), nullptr}});
  });
  add("decode_pending_sync", 20 + kSign, [&] {
    device.decode(
        {.codec = codec.get(),
         .block = kTile,
         .range = range,
         .message = message.data(),
         .sink = PendingSync{step, 1, table, m.data(), v.data(), x_sync.data(), x.data()}});
  });
  add("local_step", 32, [&] {
    device.run(
        LocalStep{step, 1, g.data(), m.data(), v.data(), pending.data(), x.data(), table, &bad});
  });
  const AdamPart part{0, elements, step};
  add("decode_adamw", 28, [&] {
    device.run(Values{g.data()},
               AdamWUpdate{{&part, 1}, m.data(), v.data(), x.data(), {kTile, &bad}}, elements);
  });
  return all;
}

}  // namespace laconic::inline device
