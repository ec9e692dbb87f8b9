#include "laconic/optim/rule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "laconic/collective/conveyor.h"
#include "laconic/core/error.h"
#include "laconic/optim/courier.h"
#include "laconic/optim/method.h"
#include "laconic/optim/paths.h"

namespace laconic::inline optim {

std::vector<Gauge> Shadow::gauges() const {
  std::vector<Gauge> all;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Sums& s = sums[i];
    if (s.counted == 0) continue;
    const double norms = std::sqrt(s.exact * s.coded);
    all.push_back({ranges[i].name, norms > 0 ? s.dot / norms : 0,
                   static_cast<double>(s.agree) / static_cast<double>(s.counted),
                   s.exact > 0 ? std::sqrt(s.error / s.exact) : 0});
  }
  return all;
}

std::uint64_t Rule::bad_blocks() const {
  std::uint64_t bad = bad_.load(std::memory_order_relaxed);
  for (const Mean* mean : means_) bad += mean->bad_blocks();
  return bad;
}

void Rule::around(std::span<const Piece> resting, FunctionRef<void()> work) {
  const bool keeps = !resting.empty() && !keeps_what_rests();
  if (keeps) kept_.take(*bucket_.device, bucket_.x, state(), resting);
  resting_ = resting;
  work();
  resting_ = {};
  if (!keeps) return;
  if (bucket_.conveyor) bucket_.conveyor->drain();
  kept_.put_back(*bucket_.device);
}

void Rule::step_around(const Step& step, std::span<const Piece> resting) {
  around(resting, [&] { this->step(step); });
}

void Rule::synchronize_around(const Step& step, std::span<const Piece> resting) {
  around(resting, [&] { synchronize(step); });
}

void Rule::apply_around(const Step& step, std::span<const Piece> resting) {
  if (resting.empty()) return apply(step);
  kept_.take(*bucket_.device, bucket_.x, state(), resting);
  apply(step);
  kept_.put_back(*bucket_.device);
}

TensorPart Rule::part_of(const Step&, std::int64_t, std::size_t begin, std::size_t count) {
  return {.begin = begin, .count = count};
}

std::span<const float> Rule::masked(std::span<const float> live) {
  if (resting_.empty()) return live;
  Device& device = *bucket_.device;
  if (mask_.empty()) mask_ = Memory<float>(device, bucket_.x.size());
  if (live.empty())
    device.run(Filling{mask_.data(), mask_.size(), 1});
  else
    copy_on<float>(device, live, mask_.span());
  for (const Piece& piece : resting_) device.clear(mask_.data() + piece.begin, 4 * piece.count);
  return mask_.span();
}

std::unique_ptr<Mean> Rule::make_exact(std::span<float> pending) const {
  return make(bucket_.config->bf16 ? "bf16" : "fp32", pending, Feedback::kFull, *bucket_.nodes);
}

bool Rule::codes_gradients() const {
  const OptimizerConfig& config = *bucket_.config;
  const Method& method = method_named(config.algorithm);
  const bool chooses = !bucket_.paths.empty() && !method.choices_of(config).empty();
  return bucket_.group.compress && (chooses || !is_exact(method.codec_of(config)));
}

std::unique_ptr<Mean> Rule::make_gradient_mean() {
  const OptimizerConfig& config = *bucket_.config;
  const std::string codec = method_named(config.algorithm).codec_of(config);
  if (!codes_gradients())
    return codec == "bf16" ? make(codec, {}, Feedback::kFull, *bucket_.nodes) : make_exact();
  return make_coded(codec, {}, config.feedback);
}

std::unique_ptr<Mean> Rule::make_plain(const std::string& codec) const {
  return bucket_.group.compress ? make(codec, {}, Feedback::kNone, *bucket_.nodes) : make_exact();
}

std::unique_ptr<Mean> Rule::make_coded(const std::string& codec, std::span<float> pending,
                                       Feedback feedback) {
  if (!bucket_.group.compress) return make_exact(pending);
  if (bucket_.paths.empty()) return make(codec, pending, feedback, *bucket_.nodes);
  auto mean = make_switching(bucket_.paths, pending, feedback);
  switching_ = mean.get();
  return mean;
}

std::unique_ptr<SwitchingMean> Rule::make_switching(std::span<const Path> paths,
                                                    std::span<float> pending,
                                                    Feedback feedback) const {
  std::vector<std::unique_ptr<Mean>> means;
  for (const Path& path : paths)
    means.push_back(make(path.codec, pending, path.exact() ? Feedback::kFull : feedback,
                         path.flat ? *bucket_.flat : *bucket_.nodes));
  return std::make_unique<SwitchingMean>(paths, std::move(means), *bucket_.nodes,
                                         bucket_.config->scale_block);
}

bool Rule::codes_dense_rounds() const {
  const OptimizerConfig& config = *bucket_.config;
  return bucket_.group.compress && !is_exact(method_named(config.algorithm).dense_codec_of(config));
}

// Paths are measured for coded rounds only, so a dense one is exact for the guard alone.
std::unique_ptr<Mean> Rule::make_dense() {
  const OptimizerConfig& config = *bucket_.config;
  const std::string codec = method_named(config.algorithm).dense_codec_of(config);
  if (!is_exact(codec) && !bucket_.group.compress) return make_exact();
  if (is_exact(codec) || bucket_.paths.empty() || !config.guard)
    return make(codec, {}, Feedback::kFull, *bucket_.nodes);
  auto either = make_switching(coded_or_exact(config, codec), {}, Feedback::kFull);
  dense_switching_ = either.get();
  return either;
}

namespace {

RandomForm form_of(ExchangeForm form) {
  switch (form) {
    case ExchangeForm::kSingleRound: return RandomForm::kSingleRound;
    case ExchangeForm::kCount: return RandomForm::kCount;
    case ExchangeForm::kTwoRound:
    case ExchangeForm::kAuto: break;
  }
  return RandomForm::kTwoRound;
}

}  // namespace

std::unique_ptr<Mean> Rule::make(const std::string& codec, std::span<float> pending,
                                 Feedback feedback, const Nodes& nodes) const {
  const OptimizerConfig& config = *bucket_.config;
  const Method& method = method_named(config.algorithm);
  return make_mean({.codec = codec,
                    .codec_down = is_exact(codec) ? "" : method.codec_down_of(config),
                    .elements = bucket_.x.size(),
                    .scale_block = config.scale_block,
                    .scale_norm = config.scale_norm,
                    .quant_block = config.quant_block,
                    .top_k = config.top_k,
                    .feedback = feedback,
                    .feedback_reset = config.feedback_reset,
                    .feedback_decay = std::max(0.0, config.feedback_decay),
                    .form = codec == kVote ? config.form : form_of(config.exchange),
                    .seed = config.seed,
                    .bucket = bucket_.key,
                    .pending = pending,
                    .conveyor = bucket_.conveyor},
                   nodes, bucket_.courier ? bucket_.courier->device() : *bucket_.device);
}

Buffer<float> Rule::residuals_in(const Whole& whole, std::string_view prefix) const {
  Buffer<float> sum(bucket_.x.size());
  for (const auto& [name, values] : whole)
    if (name.starts_with(prefix) &&
        role_of(std::string_view(name).substr(prefix.size())) == Role::kResidual)
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
  return sum;
}

void Rule::hand_out(const Buffer<float>& e, const std::vector<State>& states) const {
  bool handed_out = false;
  for (const State& state : states) {
    if (state.role != Role::kResidual) continue;
    if (state.spread == Spread::kMean && !std::exchange(handed_out, true))
      store(e.span().subspan(state.begin, state.values.size()), state.values);
    else
      clear(state);
  }
}

void Rule::clear(const State& state) const {
  if (state.of_host)
    std::ranges::fill(state.values, 0.0F);
  else
    bucket_.device->clear(state.values.data(), state.values.size_bytes());
}

namespace {

// Adds what the tensors of `shadow` have in [begin, begin + exact.size()) of the model.
void compare(Shadow& shadow, std::size_t begin, std::span<const float> exact,
             std::span<const float> coded) {
  for (std::size_t i = 0; i < shadow.ranges.size(); ++i) {
    const NamedRange& range = shadow.ranges[i];
    const std::size_t from = std::max(begin, range.begin);
    const std::size_t to = std::min(begin + exact.size(), range.begin + range.count);
    Shadow::Sums& sums = shadow.sums[i];
    for (std::size_t k = from; k < to; ++k) {
      const double a = exact[k - begin], b = coded[k - begin];
      sums.dot += a * b;
      sums.exact += a * a;
      sums.coded += b * b;
      sums.error += (a - b) * (a - b);
      sums.agree += std::signbit(exact[k - begin]) == std::signbit(coded[k - begin]);
      ++sums.counted;
    }
  }
}

}  // namespace

void Rule::begin_exchange(Mean& mean, const Source& source, const Sink& sink, const Step& step,
                          std::span<const float> live) {
  if (bucket_.shadow->on) return exchange(mean, source, sink, step, live);
  mean.begin(source, sink, round_of(step, live));
}

void Rule::exchange(Mean& mean, const Source& source, const Sink& sink, const Step& step,
                    std::span<const float> live) {
  const Round round = round_of(step, live);
  if (!bucket_.shadow->on) return mean.exchange(source, sink, round);
  if (!exact_) {
    exact_ = make_exact();
    given_ = Memory<float>(*bucket_.device, bucket_.x.size());
    decoded_ = Memory<float>(*bucket_.device, bucket_.x.size());
  }
  mean.exchange(RecordedSource{&source, given_.data()}, RecordedSink{&sink, decoded_.data()},
                round);
  exact_->reduce(given_.span());
  if (bucket_.device->is_host())
    return compare(*bucket_.shadow, bucket_.begin, given_.span(), decoded_.span());
  const Buffer<float> exact(given_.size()), coded(decoded_.size());
  fetch(given_.span(), exact.span());
  fetch(decoded_.span(), coded.span());
  compare(*bucket_.shadow, bucket_.begin, exact.span(), coded.span());
}

}  // namespace laconic::inline optim
