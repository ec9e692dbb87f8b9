#include "laconic/checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "laconic/checkpoint/file.h"
#include "laconic/checkpoint/seal.h"
#include "laconic/optim/method.h"

namespace laconic::inline checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kClose = "\n}\n";
constexpr std::uint64_t kLongest = 100'000'000;

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

json to_json(const Manifest& manifest) {
  json groups = json::array(), files = json::array();
  for (const Group& group : manifest.groups)
    groups.push_back({{"name", group.name},
                      {"elements", group.elements},
                      {"lr_factor", group.lr_factor},
                      {"weight_decay", group.weight_decay},
                      {"compress", group.compress}});
  for (const auto& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.mark.bytes}, {"seal", file.mark.seal}});
  return {{"format", Manifest::kFormat},
          {"algorithm", manifest.algorithm},
          {"config", manifest.config},
          {"step", manifest.step},
          {"ranks", manifest.ranks},
          {"elements", manifest.elements},
          {"groups", groups},
          {"files", files},
          {"extra", manifest.extra}};
}

// Numbers of JSON as whole ones that fit; every complaint names the file.
class Reading {
 public:
  explicit Reading(const fs::path& path) : path_(path) {}

  template <typename T>
  T whole(const json& object, const char* name) const {
    const json& value = object.at(name);
    const bool fits = value.is_number_unsigned()  ? std::in_range<T>(value.get<std::uint64_t>())
                      : value.is_number_integer() ? std::in_range<T>(value.get<std::int64_t>())
                                                  : false;
    if (!fits)
      fail(Code::kCorrupt, "{}: `{}` is not a whole number that fits", path_.string(), name);
    return value.get<T>();
  }
  Manifest manifest(const json& text) const;

 private:
  const fs::path& path_;
};

Manifest Reading::manifest(const json& text) const {
  Manifest manifest;
  manifest.algorithm = text.at("algorithm");
  manifest.config = text.at("config");
  manifest.step = whole<std::int64_t>(text, "step");
  manifest.ranks = whole<int>(text, "ranks");
  manifest.elements = whole<std::uint64_t>(text, "elements");
  for (const json& group : text.at("groups"))
    manifest.groups.push_back({group.at("name"), whole<std::size_t>(group, "elements"),
                               group.at("lr_factor"), group.at("weight_decay"),
                               group.at("compress")});
  for (const json& file : text.at("files"))
    manifest.files.push_back(
        {file.at("name"), {whole<std::uint64_t>(file, "bytes"), file.at("seal")}});
  manifest.extra = text.at("extra");
  return manifest;
}

void check_file_names(const Manifest& manifest, const fs::path& path) {
  if (manifest.ranks < 1 || manifest.files.size() != static_cast<std::size_t>(manifest.ranks) + 1)
    fail(Code::kCorrupt, "{} lists {} files for {} ranks, {} are expected", path.string(),
         manifest.files.size(), manifest.ranks, std::int64_t{manifest.ranks} + 1);
  for (int i = 0; i <= manifest.ranks; ++i) {
    const std::string wanted = i == 0 ? kSharedName : rank_file_name(i - 1);
    const std::string& found = manifest.files[static_cast<std::size_t>(i)].name;
    if (found != wanted)
      fail(Code::kCorrupt, "{} names the file `{}` where `{}` is expected", path.string(), found,
           wanted);
  }
}

// Empty: there is none.
fs::path find_folder(const Places& places) {
  std::error_code ignored;
  for (const fs::path& folder : {places.target, places.aside})
    if (fs::exists(folder / kManifestName, ignored)) return folder;
  return {};
}

template <typename T>
void check_equal(const Manifest& saved, const std::string& what, const T& there, const T& here,
                 const char* remedy) {
  if (there != here)
    fail(Code::kInvalidArgument, "the checkpoint {} has {} = {}, this run has {}: {}",
         saved.folder.string(), what, there, here, remedy);
}

void check_groups(const Manifest& saved, const Manifest& now) {
  constexpr const char* kRemedy = "build the same model with the same groups";
  check_equal(saved, "elements", saved.elements, now.elements, kRemedy);
  check_equal(saved, "number of groups", saved.groups.size(), now.groups.size(), kRemedy);
  for (std::size_t i = 0; i < now.groups.size(); ++i) {
    const Group &there = saved.groups[i], &here = now.groups[i];
    const std::string group = fmt::format("group {} (`{}`): ", i, there.name);
    check_equal(saved, group + "name", there.name, here.name, kRemedy);
    check_equal(saved, group + "elements", there.elements, here.elements, kRemedy);
    check_equal(saved, group + "lr_factor", there.lr_factor, here.lr_factor, kRemedy);
    check_equal(saved, group + "weight_decay", there.weight_decay, here.weight_decay, kRemedy);
    check_equal(saved, group + "compress", there.compress, here.compress, kRemedy);
  }
}

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank{:05}.safetensors", rank); }

Places::Places(const fs::path& path) : target(path.lexically_normal()) {
  if (!target.has_filename()) target = target.parent_path();
  if (!target.has_filename() || target.filename() == "." || target.filename() == "..")
    fail(Code::kInvalidArgument, "`{}` cannot be a checkpoint: name a folder of its own",
         path.string());
  fresh = with_suffix(target, ".laconic-new");
  aside = with_suffix(target, ".laconic-old");
  parent = target.has_parent_path() ? target.parent_path() : ".";
}

Manifest describe(const SavedState& optimizer) {
  Manifest manifest;
  manifest.algorithm = optimizer.config().algorithm;
  manifest.config = to_text(optimizer.config());
  manifest.step = optimizer.steps_taken();
  manifest.ranks = optimizer.transport().size();
  manifest.elements = optimizer.model().weights.size();
  manifest.groups = optimizer.model().groups;
  return manifest;
}

void write_manifest(const Manifest& manifest) {
  std::string body;
  try {
    body = to_json(manifest).dump(1);
  } catch (const json::exception& error) {
    fail(Code::kInvalidArgument,
         "the extra text of a checkpoint, or a group's name, is not UTF-8: {}", error.what());
  }
  body.resize(body.size() - 2);  // "\n}"
  const std::string text = sealed(body + ",\n ", kClose);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  write_file(manifest.folder / kManifestName, std::span(&bytes, 1));
}

bool has_checkpoint(const fs::path& path) { return !find_folder(Places(path)).empty(); }

Manifest read_manifest(const fs::path& path) {
  const Places places(path);
  const fs::path folder = find_folder(places), file_path = folder / kManifestName;
  if (folder.empty())
    fail(Code::kFile, "there is no checkpoint at {}: no {} in it", places.target.string(),
         kManifestName);
  const InputFile file(file_path);
  if (file.size() > kLongest)
    fail(Code::kCorrupt, "{} has {} bytes, at most {} are possible", file_path.string(),
         file.size(), kLongest);
  std::string text(file.size(), ' ');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const std::string seal = checked_seal(text, kClose, file_path);
  check_nesting(text, file_path);
  const Reading reading(file_path);
  try {
    const json parsed = json::parse(text);
    if (const auto format = reading.whole<int>(parsed, "format"); format != Manifest::kFormat)
      fail(Code::kUnavailable,
           "{} is of format {}, this laconic reads format {}: use the version that wrote it",
           file_path.string(), format, Manifest::kFormat);
    Manifest manifest = reading.manifest(parsed);
    check_file_names(manifest, file_path);
    manifest.seal = seal;
    manifest.folder = folder;
    return manifest;
  } catch (const json::exception& error) {
    fail(Code::kCorrupt, "{} is not a manifest: {}", file_path.string(), error.what());
  }
}

void check_same(const Manifest& saved, const SavedState& optimizer) {
  const Manifest now = describe(optimizer);
  check_equal(saved, "algorithm", saved.algorithm, now.algorithm, "resume with the same optimizer");
  check_groups(saved, now);
  const Method& method = method_named(optimizer.config().algorithm);
  std::vector<std::string> others;  // all of them: one may be the reason of the rest
  for (const auto& [field, here] : now.config) {
    const Option* option = method.find(field);
    if (option == nullptr || option->may_change) continue;
    // An option that an earlier version did not have was at its default. One that follows from
    // others differs where they do.
    const auto there = saved.config.find(field);
    const std::string before = there != saved.config.end() ? there->second : option->default_text();
    const bool follows = there == saved.config.end() && before == kDefaultText;
    if (before != here && !follows)
      others.push_back(fmt::format("{} = {} (here {})", field, before, here));
  }
  if (!others.empty())
    fail(Code::kInvalidArgument, "the checkpoint {} has {}: resume with what was saved",
         saved.folder.string(), fmt::join(others, ", "));
}

}  // namespace laconic::inline checkpoint
