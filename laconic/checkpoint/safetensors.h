#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

// Files of the safetensors format: the length of the header (8 bytes, little-endian), the header
// (JSON), the tensors. Ours also hold the hash64 of each tensor and of the header, in the metadata
// as "hash.<name>" and "seal", so that a flipped bit is found wherever it is.
namespace laconic::inline checkpoint {

enum class Dtype : std::uint8_t { kF32, kF64 };

// Values to write, row after row; the caller keeps the memory. Without a shape: a vector.
struct Tensor {
  using Shape = std::vector<std::uint64_t>;
  Tensor(std::string name, std::span<const float> values);
  Tensor(std::string name, std::span<const double> values);
  // Throws Error(kInvalidArgument) when the shape is not of so many values.
  Tensor(std::string name, std::span<const float> values, Shape shape);
  Tensor(std::string name, std::span<const double> values, Shape shape);

  std::string name;
  Dtype dtype;
  std::span<const std::byte> bytes;
  Shape shape;
};

using Metadata = std::map<std::string, std::string>;

// Size of a file, and the seal of its header: together they stand for every bit of it.
struct FileMark {
  std::uint64_t bytes = 0;
  std::string seal;
};

// Replaces `path` by a whole file, or leaves it as it was and throws Error(kFile) with the path and
// the system's reason. Names must be unique and not "__metadata__"; names and metadata are UTF-8
// (Error(kInvalidArgument)).
FileMark write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                           const Metadata& metadata);

// A file that write_safetensors wrote. Only the header is kept, and no file is held open. Whatever
// does not fit the format is Error(kCorrupt) that names the file, what was found and what was
// expected; nothing is allocated that the file's size does not justify.
class SafetensorsFile {
 public:
  struct Entry {
    Dtype dtype = Dtype::kF32;
    std::vector<std::uint64_t> shape;
    std::uint64_t elements = 0;
    std::uint64_t begin = 0, end = 0;  // bytes, in the file
    std::string hash;
  };

  // Reads and checks the header. The tensors' bytes are checked by verify().
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const noexcept { return path_; }
  const FileMark& mark() const noexcept { return mark_; }
  const std::map<std::string, Entry>& tensors() const noexcept { return tensors_; }
  // Without hashes and seal.
  const Metadata& metadata() const noexcept { return metadata_; }

  // Null: there is none of that name.
  const Entry* find(const std::string& name) const noexcept;
  // Reads everything and compares the hashes.
  void verify() const;
  // Elements first, first + 1, … of a tensor. Error(kCorrupt) when there is no such tensor, it is
  // of the other type or too short.
  void read(const std::string& name, std::uint64_t first, std::span<float> out) const;
  void read(const std::string& name, std::uint64_t first, std::span<double> out) const;

 private:
  void read_bytes(const std::string& name, Dtype dtype, std::uint64_t first,
                  std::span<std::byte> out) const;

  std::filesystem::path path_;
  FileMark mark_;
  std::map<std::string, Entry> tensors_;
  Metadata metadata_;
};

}  // namespace laconic::inline checkpoint
