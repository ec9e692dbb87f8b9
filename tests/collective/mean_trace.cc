// mean_trace CODEC CODEC_DOWN FEEDBACK TOP_K RANKS ELEMENTS EXCHANGES: reads what every rank gives
// to every exchange from standard input, as raw floats, and writes the means. CODEC_DOWN `-` leaves
// it to CODEC.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "laconic/collective/mean.h"
#include "laconic/transport/threads.h"

using namespace laconic;

namespace {

Feedback feedback_of(const std::string& name) {
  return name == "full"    ? Feedback::kFull
         : name == "ema"   ? Feedback::kEma
         : name == "decay" ? Feedback::kDecay
                           : Feedback::kNone;
}

void trace(const MeanConfig& config, int ranks, std::size_t exchanges) {
  const std::size_t elements = config.elements, in_all = static_cast<std::size_t>(ranks) * elements;
  std::vector<float> values(exchanges * in_all), means(exchanges * elements);
  if (std::fread(values.data(), sizeof(float), values.size(), stdin) != values.size())
    throw std::runtime_error("too few values on standard input");
  run_threads(ranks, [&](Transport& world) {
    const Nodes nodes = make_nodes(world, kFlat);
    const auto device = make_host_device(1);
    const auto mean = make_mean(config, nodes, *device);
    for (std::size_t exchange = 0; exchange < exchanges; ++exchange) {
      const std::size_t at = exchange * in_all + static_cast<std::size_t>(world.rank()) * elements;
      const std::span<float> mine(values.data() + at, elements);
      mean->reduce(mine);
      if (world.rank() == 0)
        std::copy(mine.begin(), mine.end(), means.data() + exchange * elements);
    }
  });
  std::fwrite(means.data(), sizeof(float), means.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 8) {
    fmt::print(stderr,
               "usage: mean_trace CODEC CODEC_DOWN FEEDBACK TOP_K RANKS ELEMENTS EXCHANGES\n");
    return 2;
  }
  const std::string down = argv[2];
  trace({.codec = argv[1],
         .codec_down = down == "-" ? "" : down,
         .elements = std::stoul(argv[6]),
         .top_k = std::stoul(argv[4]),
         .feedback = feedback_of(argv[3]),
         .feedback_reset = 4},
        std::stoi(argv[5]), std::stoul(argv[7]));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "mean_trace: {}\n", error.what());
  return 1;
}
