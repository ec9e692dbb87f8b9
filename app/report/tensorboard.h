#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "app/report/file.h"

namespace laconic::app::report {

// An event file as TensorBoard reads it, written without TensorFlow: records framed by lengths and
// masked CRC-32C, each a protobuf Event. Errors are those of AppendedFile. One thread at a time.
class EventFile {
 public:
  using Scalar = std::pair<std::string_view, double>;  // tag, value

  // A new file in `folder` (made if missing), named so that TensorBoard finds it; never one that is
  // there already, so a resumed run adds a file.
  explicit EventFile(const std::filesystem::path& folder);
  void append(std::int64_t step, std::initializer_list<Scalar> scalars);
  void close() { file_.close(); }
  const std::filesystem::path& path() const noexcept { return file_.path(); }

 private:
  void write_record(const std::string& event);

  AppendedFile file_;
};

// CRC-32C (Castagnoli), as in iSCSI.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace laconic::app::report
