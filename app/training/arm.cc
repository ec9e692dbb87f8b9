#include "app/training/arm.h"

#include <algorithm>

#include "laconic/core/error.h"

namespace laconic::app::training {

std::string_view next_word(std::string_view& arm) {
  const std::string_view word = arm.substr(0, arm.find(':'));
  arm.remove_prefix(std::min(arm.size(), word.size() + 1));
  return word;
}

void set_method(OptimizerConfig& config, std::string_view& arm) {
  std::string_view algorithm = next_word(arm);
  if (algorithm.ends_with("-bf16")) {
    algorithm.remove_suffix(5);
    config.bf16 = true;
  }
  set(config, "algorithm", algorithm);
}

void set_options(OptimizerConfig& config, std::string_view options) {
  while (!options.empty()) {
    const std::string_view option = next_word(options);
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos)
      fail(Code::kInvalidArgument,
           "optimizer {}: `{}` is not option=value; write for example {}:max_grad_norm=1",
           config.algorithm, option, config.algorithm);
    set(config, option.substr(0, equals), option.substr(equals + 1));
  }
}

}  // namespace laconic::app::training
