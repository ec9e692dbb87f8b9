#include "laconic/optim/paths.h"

#include <algorithm>

#include "laconic/optim/method.h"

namespace laconic::inline optim {
namespace {

Path exact_path(const OptimizerConfig& config) {
  return {.name = "dense", .codec = config.bf16 ? "bf16" : "fp32"};
}

void add_codec(std::vector<Path>& all, const std::string& codec, bool configured, bool hierarchy) {
  const std::string prefix = configured ? "" : codec;
  all.push_back({.name = codec, .codec = codec, .prefix = path_prefix(prefix, false)});
  if (hierarchy && !is_exact(codec))
    all.push_back({.name = codec + " flat",
                   .codec = codec,
                   .flat = true,
                   .prefix = path_prefix(prefix, true)});
}

}  // namespace

std::vector<Path> coded_or_exact(const OptimizerConfig& config, const std::string& codec) {
  return {{.name = "coded", .codec = codec}, exact_path(config)};
}

std::vector<Path> paths_of(const OptimizerConfig& config, bool hierarchy) {
  const Method& method = method_named(config.algorithm);
  const std::string configured = method.codec_of(config);
  const auto choices = method.choices_of(config);
  if (choices.empty()) {
    std::vector<Path> all = coded_or_exact(config, configured);
    if (hierarchy && config.exchange == ExchangeForm::kAuto)
      all.push_back(
          {.name = "flat", .codec = configured, .flat = true, .prefix = path_prefix("", true)});
    return all;
  }
  std::vector<Path> all;
  add_codec(all, configured, true, hierarchy);
  for (const std::string& codec : choices)
    if (codec != configured) add_codec(all, codec, false, hierarchy);
  return all;
}

std::string Paths::choose(Step::Kind kind) {
  const bool coded = kind == Step::Kind::kCoded;
  const auto& means = coded ? means_ : dense_;
  if (means.empty()) return {};
  const bool exact = exact_left_ > 0;
  if (exact) --exact_left_;
  for (SwitchingMean* mean : means) exact ? mean->use_exact() : mean->use(0);
  const bool chooses = choice_ && !exact && coded;
  if (chooses) choice_->decide();
  return exact     ? means.front()->exact_name()
         : chooses ? choice_->describe()
                   : means.front()->configured_name();
}

bool Paths::went_exactly() const {
  return !means_.empty() && std::ranges::all_of(means_, &SwitchingMean::went_exactly);
}

void Paths::restored() {
  for (SwitchingMean* mean : means_) mean->restored();
  for (SwitchingMean* mean : dense_) mean->restored();
}

}  // namespace laconic::inline optim
