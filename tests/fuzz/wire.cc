// Messages of every form, from ranks that lie.
#include <cmath>

#include "laconic/collective/mean.h"
#include "laconic/device/host.h"
#include "tests/fuzz/hostile_transport.h"

using namespace laconic;

namespace {

constexpr int kRanks = 4;

MeanConfig config_of(fuzz::Input& input) {
  MeanConfig config;
  static constexpr const char* kCodecs[] = {
      "fp32",        "bf16", "sign", "sign", "sign", "random-sign", "random-sign",
      "random-sign", "int8", "int4", "int2", "int4", "vote",        "vote"};
  const unsigned kind = input.byte() % std::size(kCodecs);
  config.codec = kCodecs[kind];
  config.scale_block = kind == 2 ? 64 : kind == 3 ? 0 : 4096;
  config.quant_block = kind == 11 ? 64 : 256;
  config.feedback = kind == 11 ? Feedback::kNone : Feedback::kFull;
  config.scale_norm = kind == 4 ? kernels::Norm::kL1 : kernels::Norm::kL2;
  config.form = kind == 5 || kind == 12 ? RandomForm::kTwoRound
                : kind == 6             ? RandomForm::kSingleRound
                                        : RandomForm::kCount;
  config.elements = input.number() % 9000;
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const MeanConfig config = config_of(input);
  const unsigned place = input.byte();
  fuzz::HostileTransport::Group group{&input, true, place % 2 == 0 ? 1 : 2};
  fuzz::HostileTransport world(group, static_cast<int>(place / 2 % kRanks), kRanks);
  HostDevice device(1);
  const Nodes nodes = make_nodes(world, group.per_node);
  const auto mean = make_mean(config, nodes, device);
  group.honest = false;
  std::vector<float> values(config.elements);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 7) - 3;
  // Codes are checked; plain numbers, exact or inside a node, may be anything.
  const bool coded = config.codec != "fp32" && config.codec != "bf16" && group.per_node == 1;
  for (int exchange = 0; exchange < 8 && !input.empty(); ++exchange) {
    if (!fuzz::accepted([&] { mean->reduce(values); })) break;
    if (!coded) continue;
    for (const float value : values) fuzz::expect(std::isfinite(value));
    // Largest scales over and over are legal; what one rank gives itself stays small.
    for (float& value : values) value = std::clamp(value, -1.0F, 1.0F);
  }
  return 0;
}
