#include "app/plan/models.h"

#include <utility>

#include "laconic/core/error.h"

namespace laconic::app::plan {
namespace {

// Those of app/models as `laconic train` makes them by default: small ResNets for
// Fashion-MNIST's one channel, minis for the 260 tokens of bytes. BERT without the heads of its
// tasks. Then others that people ask about.
constexpr std::pair<const char*, std::size_t> kModels[] = {
    {"resnet8", 75'002},          {"resnet20", 269'434},      {"resnet18", 11'689'512},
    {"resnet50", 25'557'032},     {"gpt2-mini", 1'041'280},   {"gpt2", 124'439'808},
    {"bert-mini", 860'292},       {"bert-base", 109'482'240}, {"bert-large", 335'141'888},
    {"gpt2-medium", 354'823'168}, {"gpt2-xl", 1'557'611'200},
};

}  // namespace

std::size_t parameters_of(const std::string& model) {
  std::string names;
  for (const auto& [name, parameters] : kModels) {
    if (model == name) return parameters;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(Code::kInvalidArgument,
       "no model named {}: there are {}; for others give --params 110000000", model, names);
}

}  // namespace laconic::app::plan
