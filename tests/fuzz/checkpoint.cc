// Checkpoints, one file of which is hostile: any bytes, or sealed as they should be and named so in
// the manifest.
#include "laconic/checkpoint/checkpoint.h"

#include "laconic/checkpoint/manifest.h"
#include "laconic/checkpoint/seal.h"
#include "laconic/transport/threads.h"
#include "tests/checkpoint/fake_optimizer.h"
#include "tests/fuzz/input.h"

using namespace laconic;
using laconic::testing::FakeOptimizer;

namespace {

namespace fs = std::filesystem;

// A sound checkpoint of so many ranks, made once.
const fs::path& sound(int ranks) {
  static const std::map<int, fs::path> all = [] {
    std::map<int, fs::path> made;
    for (const int n : {1, 2}) {
      made[n] = fuzz::folder() / ("sound" + std::to_string(n));
      run_threads(n, [&](Transport& world) {
        FakeOptimizer optimizer(world);
        optimizer.fill(3, true);
        save_checkpoint(made[n], optimizer);
      });
    }
    return made;
  }();
  return all.at(ranks);
}

void copy_sound(int ranks, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(sound(ranks)))
    fs::copy_file(entry.path(), to / entry.path().filename(), fs::copy_options::overwrite_existing);
}

// The manifest says of the files what they are, where they can be read.
void rewrite_manifest(const fs::path& folder) {
  fuzz::accepted([&] {
    Manifest manifest = read_manifest(folder);
    for (auto& file : manifest.files) file.mark = SafetensorsFile(folder / file.name).mark();
    write_manifest(manifest);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const unsigned what = input.byte();
  const int ranks = 1 + static_cast<int>(what / 4 % 2);
  const std::string name = "run" + std::to_string(ranks);
  copy_sound(ranks, fuzz::folder() / name);
  if (what % 4 == 0) {
    fuzz::put(name + "/" + kManifestName, input.rest());
  } else if (what % 4 == 1) {
    fuzz::put(name + "/" + kManifestName, sealed(input.rest(), "\n}\n"));
  } else {
    const std::string file = what % 4 == 2 ? kSharedName : rank_file_name(0);
    const std::string header = sealed(input.take(input.number()), "}}");
    const std::uint64_t length = header.size();
    fuzz::put(name + "/" + file,
              std::string(reinterpret_cast<const char*>(&length), 8) + header + input.rest());
    rewrite_manifest(fuzz::folder() / name);
  }
  static const auto alone = std::move(make_threads(1).front());
  FakeOptimizer optimizer(*alone);
  const auto before = optimizer.bytes();
  if (!fuzz::accepted([&] { load_checkpoint(fuzz::folder() / name, optimizer); }))
    fuzz::expect(optimizer.bytes() == before && optimizer.restored_calls == 0);
  return 0;
}
