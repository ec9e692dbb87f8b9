#include "app/plan/models.h"

#include <utility>

#include "laconic/core/error.h"

namespace laconic::app {
namespace {

// Small ResNets are of 3 stages and 10 classes; BERT without the heads of its tasks.
constexpr std::pair<const char*, std::size_t> kModels[] = {
    {"resnet8", 78'042},          {"resnet20", 272'474},       {"resnet32", 466'906},
    {"resnet56", 855'770},        {"resnet18", 11'689'512},    {"resnet50", 25'557'032},
    {"bert-base", 109'482'240},   {"bert-large", 335'141'888}, {"gpt2", 124'439'808},
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

}  // namespace laconic::app
