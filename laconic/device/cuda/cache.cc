#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "laconic/core/error.h"
#include "laconic/core/hash.h"
#include "laconic/device/cuda/compiler.h"

namespace laconic::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "laconic cache 1\n";

fs::path default_folder() {
  if (const char* own = std::getenv("LACONIC_CACHE"); own && *own) return own;
  if (const char* user = std::getenv("XDG_CACHE_HOME"); user && *user)
    return fs::path(user) / "laconic";
  if (const char* home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".cache" / "laconic";
  return {};
}

std::string hash_of(std::string_view text) {
  return fmt::format("{:016x}", hash64(std::as_bytes(std::span(text))));
}

}  // namespace

CodeCache::CodeCache(fs::path folder)
    : folder_(folder.empty() ? default_folder() : std::move(folder)) {}

fs::path CodeCache::place_of(std::string_view key) const { return folder_ / hash_of(key); }

// An entry is a line that names the format, the hash of what follows, the key's length, the key and
// the value.
std::string CodeCache::read(std::string_view key) const {
  if (folder_.empty()) return {};
  std::ifstream file(place_of(key), std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  std::string_view rest = text;
  if (!file || !rest.starts_with(kMagic) || rest.size() < kMagic.size() + 17) return {};
  const std::string_view hash = rest.substr(kMagic.size(), 16);
  rest.remove_prefix(kMagic.size() + 17);
  const std::string head = fmt::format("{}\n{}\n", key.size(), key);
  if (hash_of(rest) != hash || !rest.starts_with(head)) return {};
  return std::string(rest.substr(head.size()));
}

void CodeCache::write(std::string_view key, std::string_view value) const {
  if (folder_.empty()) return;
  std::error_code failed;
  fs::create_directories(folder_, failed);
  fs::permissions(folder_, fs::perms::group_write | fs::perms::others_write,
                  fs::perm_options::remove, failed);
  const fs::path place = place_of(key);
  const fs::path fresh = fmt::format("{}.{}", place.string(), getpid());
  const std::string body = fmt::format("{}\n{}\n{}", key.size(), key, value);
  {
    std::ofstream file(fresh, std::ios::binary);
    file << kMagic << hash_of(body) << '\n' << body;
    if (!file.flush()) {
      file.close();
      fs::remove(fresh, failed);
      return;
    }
  }
  fs::rename(fresh, place, failed);
  if (failed) fs::remove(fresh, failed);
}

std::string CodeCache::code_of(const Compiler& compiler, std::string_view name,
                               std::string_view text, int architecture) const {
  const std::string key = fmt::format("code of {}, sm_{}, {}, texts {}", name, architecture,
                                      compiler.version(), texts_hash());
  std::string code = read(key);
  if (!code.empty()) return code;
  code = compiler.compile(name, text, architecture);
  write(key, code);
  return code;
}

}  // namespace laconic::cuda
