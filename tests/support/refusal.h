#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "laconic/core/error.h"

namespace laconic::testing {

// The message with which `call` refuses its arguments.
template <typename Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

inline ::testing::AssertionResult says(const std::string& message,
                                       std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    if (message.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "\"" << message << "\" lacks \"" << part << "\"";
  return ::testing::AssertionSuccess();
}

}  // namespace laconic::testing
