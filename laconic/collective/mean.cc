#include "laconic/collective/mean.h"

#include <algorithm>

#include "laconic/collective/coder.h"
#include "laconic/collective/in_place.h"
#include "laconic/collective/layout.h"
#include "laconic/collective/pipeline.h"
#include "laconic/collective/single_round.h"
#include "laconic/core/error.h"
#include "laconic/transport/agree.h"

namespace laconic::inline collective {
namespace {

constexpr std::string_view kCodecs[] = {"fp32", "bf16",  "int8",        "int4", "int2",
                                        "sign", "top-k", "random-sign", "vote"};

// Names of residuals: flat_int4_worker_residual.
constexpr std::string_view kFlatPrefix = "flat_", kCodecEnd = "_";

const char* name(Feedback feedback) {
  static constexpr const char* kNames[] = {"full", "ema", "decay", "none"};
  return kNames[static_cast<std::size_t>(feedback)];
}

void agree_on(const MeanConfig& config, Transport& world) {
  const std::string mine[] = {
      fmt::format("codec {}", config.codec),
      fmt::format("codec {} on the way back",
                  config.codec_down.empty() ? "by default" : config.codec_down),
      fmt::format("{} elements", config.elements),
      fmt::format("{} elements per scale block", config.scale_block),
      fmt::format("scale norm {}", config.scale_norm == kernels::Norm::kL2 ? "L2" : "L1"),
      fmt::format("{} elements per integer block", config.quant_block),
      fmt::format("top_k {}", config.top_k),
      fmt::format("feedback {} ({}, reset {}, {})", name(config.feedback), config.feedback_beta,
                  config.feedback_reset, config.feedback_decay),
      fmt::format("form {}", static_cast<int>(config.form)),
      fmt::format("seed {}", config.seed),
      fmt::format("bucket {}", config.bucket),
      config.pending.empty() ? "no pending memory" : "pending memory"};
  agree(world, mine, "build the same mean on every rank");
}

bool is_known(std::string_view codec) {
  return std::ranges::find(kCodecs, codec) != std::end(kCodecs);
}

std::string problem_of_codecs(const MeanConfig& config) {
  const std::string& down = config.codec_down;
  if (!is_known(config.codec))
    return fmt::format("no codec `{}`: {}", config.codec, fmt::join(kCodecs, ", "));
  if (sends_signs({.codec = down}) || (!down.empty() && !is_known(down)))
    return fmt::format("no codec `{}` on the way back: {}", down,
                       fmt::join(std::span(kCodecs).first(std::size(kCodecs) - 2), ", "));
  if (sends_signs(config) && !down.empty())
    return fmt::format("codec {} with codec {} on the way back: {}'s form decides the way back",
                       config.codec, down, config.codec);
  if (!down.empty() && is_exact(config.codec) && !is_exact(down))
    return fmt::format(
        "codec {} with codec {} on the way back: what {} leaves out would be lost, since exact "
        "means keep no residual; give both ways {}, or the way back fp32 or bf16",
        config.codec, down, down, down);
  if (config.top_k < 1 || config.top_k > wire::kTopKBlock)
    return fmt::format("top_k {}: it must be from 1 to {}, the elements of a block", config.top_k,
                       wire::kTopKBlock);
  return {};
}

std::string problem(const MeanConfig& config, const Nodes& nodes) {
  if (auto wrong = problem_of_codecs(config); !wrong.empty()) return wrong;
  if (config.scale_block % 64 != 0)
    return fmt::format("scale block {}: it must be a multiple of 64, or 0 for one scale per chunk",
                       config.scale_block);
  if (config.quant_block % 64 != 0 || config.quant_block == 0)
    return fmt::format("integer block {}: it must be a multiple of 64, at least 64",
                       config.quant_block);
  if (!config.pending.empty() && config.pending.size() != config.elements)
    return fmt::format("pending has {} elements, the mean {}: they must be equal",
                       config.pending.size(), config.elements);
  if (!config.pending.empty() && (sends_signs(config) || config.feedback == Feedback::kNone))
    return fmt::format("a {} mean {} has no residual: leave pending empty", config.codec,
                       sends_signs(config) ? "of any form" : "without feedback");
  if (votes(config) && config.form == RandomForm::kSingleRound)
    return "a vote in a single round: every rank is heard, so give two-round (the majority) or "
           "count";
  if (!config.pending.empty() && config.feedback == Feedback::kEma)
    return "a mean with ema feedback keeps its residual itself: leave pending empty";
  if (!(config.feedback_beta >= 0 && config.feedback_beta < 1))
    return fmt::format("feedback beta {}: it must be in [0, 1)", config.feedback_beta);
  if (!(config.feedback_decay >= 0 && config.feedback_decay <= 1))
    return fmt::format("feedback decay {}: it must be in [0, 1]", config.feedback_decay);
  if (config.feedback_reset < 0)
    return fmt::format("feedback reset {}: it must be at least 0", config.feedback_reset);
  if (nodes.per_node > 1024 || nodes.nodes * nodes.per_node > 65535)
    return fmt::format("{} nodes of {} ranks: at most 1024 ranks per node and 65535 in all",
                       nodes.nodes, nodes.per_node);
  if (config.elements >> 32 != 0)
    return fmt::format("{} elements: at most 2^32 in one mean, use several", config.elements);
  return {};
}

// The exact mean of one rank is what the rank has.
class Alone final : public Mean {
 public:
  Alone(const MeanConfig& config, Device& device) : config_(config), device_(device) {}

  void exchange(const Source& source, const Sink& sink, const Round&) override {
    device_.run(source, sink, config_.elements, config_.pending.data());
  }
  std::vector<State> state() override { return {}; }
  std::size_t elements() const noexcept override { return config_.elements; }
  std::string describe() const override { return "one rank, nothing to exchange"; }
  std::uint64_t bad_blocks() const noexcept override { return 0; }
  std::vector<std::size_t> blocks() const override {
    return Layout(config_.elements, 1, 1, tile_of(config_.scale_block), kTile).blocks();
  }

 private:
  MeanConfig config_;
  Device& device_;
};

}  // namespace

std::string path_prefix(std::string_view codec, bool flat) {
  return fmt::format("{}{}{}", flat ? kFlatPrefix : "", codec, codec.empty() ? "" : kCodecEnd);
}

Role role_of(std::string_view name) noexcept {
  if (name.starts_with(kFlatPrefix)) name.remove_prefix(kFlatPrefix.size());
  for (const std::string_view codec : kCodecs)
    if (name.starts_with(codec) && name.substr(codec.size()).starts_with(kCodecEnd)) {
      name.remove_prefix(codec.size() + kCodecEnd.size());
      break;
    }
  return name == kWorkerResidual || name == kServerResidual ? Role::kResidual : Role::kOther;
}

std::span<const std::string_view> mean_codecs() noexcept { return kCodecs; }

bool is_exact(std::string_view codec) {
  return !sends_signs({.codec = std::string(codec)}) && make_codec(codec)->exact();
}

double bits_per_element(const MeanConfig& config) {
  if (sends_signs(config)) return 1;
  const CodecOptions options = options_of(config);
  return (make_codec(config.codec, options)->bits_per_element() +
          make_codec(codec_down_of(config), options)->bits_per_element()) /
         2;
}

std::unique_ptr<Mean> make_mean(const MeanConfig& config, const Nodes& nodes, Device& device) {
  const std::string wrong = problem(config, nodes);
  // Before validating, so that an invalid rank fails on every rank instead of leaving them waiting.
  agree_on(config, *nodes.world);
  if (!wrong.empty()) throw Error(Code::kInvalidArgument, wrong);
  if (draws(config) && config.form == RandomForm::kSingleRound)
    return std::make_unique<SingleRound>(config, nodes, device);
  const bool plain = config.codec == "fp32" && codec_down_of(config) == "fp32";
  if (plain && nodes.world->size() == 1) return std::make_unique<Alone>(config, device);
  const Layout layout =
      layout_of(config, nodes.per_node, nodes.nodes, nodes.world->useful_slices());
  const Range shard = layout.shard(nodes.local), chunk = layout.chunk(nodes.local, nodes.node);
  const Place place{.rank = nodes.world->rank(),
                    .nodes = nodes.nodes,
                    .per_node = nodes.per_node,
                    .shard_begin = shard.begin,
                    .shard_count = shard.count,
                    .chunk_begin = chunk.begin,
                    .chunk_count = chunk.count};
  const auto make = draws(config)   ? make_random_sign_coder
                    : votes(config) ? make_vote_coder
                                    : make_feedback_coder;
  auto pipeline = std::make_unique<Pipeline>(config.elements, nodes, layout,
                                             make(config, place, device), config.conveyor);
  const bool exact = plain || (config.codec == "bf16" && codec_down_of(config) == "bf16");
  if (exact && nodes.world->size() > 1 && nodes.per_node == 1 && device.is_host() &&
      config.pending.empty())
    return std::make_unique<InPlace>(config.codec, std::move(pipeline), nodes, device,
                                     config.conveyor);
  return pipeline;
}

void Mean::reduce(std::span<float> values) {
  if (values.size() != elements())
    fail(Code::kInvalidArgument, "a span of {} elements, this mean is of {}", values.size(),
         elements());
  exchange(Values{values.data(), true}, Store{values.data()}, {.step = reduced_++});
}

}  // namespace laconic::inline collective
