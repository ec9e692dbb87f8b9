#pragma once

#include <optional>

#include "laconic/core/error.h"

namespace laconic {

template <typename Call>
std::optional<Error> thrown(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

template <typename Call>
std::optional<Code> thrown_code(Call call) {
  const auto error = thrown(call);
  return error ? std::optional(error->code()) : std::nullopt;
}

}  // namespace laconic
