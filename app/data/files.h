#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Files as data sets need them. What cannot be read or written is Error(kFile) with the path and
// the system's error.
namespace laconic::app::data {

// "--data generated": made on the spot, without files.
inline constexpr std::string_view kGenerated = "generated";

std::string read_file(const std::filesystem::path& path);

// The regular files of a directory that are not hidden, sorted by name.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory);

// Whole or not at all, whoever else writes the same file. Makes its directory.
void write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace laconic::app::data
