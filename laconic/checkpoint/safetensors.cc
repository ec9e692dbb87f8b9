#include "laconic/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "laconic/checkpoint/file.h"
#include "laconic/checkpoint/seal.h"
#include "laconic/core/hash.h"

namespace laconic::inline checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as in the safetensors package
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kSeal = "seal";
constexpr std::string_view kClose = "}}";
constexpr std::string_view kHash = "hash.";

const char* text(Dtype dtype) { return dtype == Dtype::kF32 ? "F32" : "F64"; }
std::uint64_t width(Dtype dtype) { return dtype == Dtype::kF32 ? 4 : 8; }

// Nothing: more than fits.
std::optional<std::uint64_t> elements_of(std::span<const std::uint64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t length : shape) {
    const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() / 8;
    if (length != 0 && elements > limit / length) return std::nullopt;
    elements *= length;
  }
  return elements;
}

void check_shape(const Tensor& tensor) {
  const std::uint64_t has = tensor.bytes.size() / width(tensor.dtype);
  if (elements_of(tensor.shape) != has)
    fail(Code::kInvalidArgument, "tensor `{}` of shape {} has {} values: they do not fit together",
         tensor.name, json(tensor.shape).dump(), has);
}

std::string quoted(const std::string& value) {
  try {
    return json(value).dump();
  } catch (const json::exception&) {
    fail(Code::kInvalidArgument, "a name or text to save is not UTF-8: {} bytes, beginning `{}`",
         value.size(), json(value).dump(-1, ' ', true, json::error_handler_t::replace));
  }
}

void check_names(std::span<const Tensor> tensors, const Metadata& metadata) {
  std::set<std::string_view> seen;
  for (const Tensor& tensor : tensors) {
    if (tensor.name == kMetadata)
      fail(Code::kInvalidArgument, "a tensor may not be named {}", kMetadata);
    if (!seen.insert(tensor.name).second)
      fail(Code::kInvalidArgument, "two tensors are named `{}`: names must differ", tensor.name);
  }
  for (const auto& [key, value] : metadata)
    if (key == kSeal || key.starts_with(kHash))
      fail(Code::kInvalidArgument, "the metadata key `{}` is taken: choose another", key);
}

// Padded so that the tensors begin at a multiple of 8.
std::string header_of(std::span<const Tensor* const> tensors, const Metadata& metadata) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (const Tensor* tensor : tensors) {
    const std::uint64_t end = at + tensor->bytes.size();
    header += quoted(tensor->name) + ":" +
              json{{"dtype", text(tensor->dtype)},
                   {"shape", tensor->shape},
                   {"data_offsets", json::array({at, end})}}
                  .dump() +
              ",";
    at = end;
  }
  header += quoted(kMetadata) + ":{";
  for (const auto& [key, value] : metadata) header += quoted(key) + ":" + quoted(value) + ",";
  for (const Tensor* tensor : tensors)
    header +=
        quoted(std::string(kHash) + tensor->name) + ":\"" + hex(hash64(tensor->bytes)) + "\",";
  const std::size_t over = (header.size() + seal_length(kClose)) % 8;
  header.append(over == 0 ? 0 : 8 - over, ' ');
  return sealed(std::move(header), kClose);
}

// Reads one header; every complaint names the file.
class HeaderReader {
 public:
  HeaderReader(const fs::path& path, const InputFile& file) : path_(path), size_(file.size()) {
    std::array<std::byte, kLengthBytes> bytes{};
    if (size_ < kLengthBytes)
      corrupt("has {} bytes, the length of the header alone takes {}", size_, kLengthBytes);
    file.read(0, bytes);
    const auto length = std::bit_cast<std::uint64_t>(bytes);
    const std::uint64_t most = std::min(size_ - kLengthBytes, kLongestHeader);
    if (length > most)
      corrupt("asks for a header of {} bytes, at most {} are possible in {} bytes", length, most,
              size_);
    text_.resize(length);
    file.read(kLengthBytes, std::as_writable_bytes(std::span(text_)));
    payload_ = kLengthBytes + length;
  }

  std::string seal() const { return checked_seal(text_, kClose, path_); }

  void parse(std::map<std::string, SafetensorsFile::Entry>& tensors, Metadata& metadata) const {
    check_nesting(text_, path_);
    const json header = json::parse(text_, nullptr, false);
    if (!header.is_object()) corrupt("has a header that is not a JSON object");
    for (const auto& [name, value] : header.items())
      if (name == kMetadata)
        metadata = read_metadata(value);
      else
        tensors.emplace(name, entry(name, value));
    metadata.erase(kSeal);
    for (auto& [name, tensor] : tensors) {
      const auto node = metadata.extract(std::string(kHash) + name);
      if (node.empty()) corrupt("has no hash of the tensor `{}`", name);
      tensor.hash = node.mapped();
    }
    check_order(tensors);
  }

 private:
  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Code::kCorrupt, "{} {}", path_.string(), fmt::format(format, std::forward<Args>(args)...));
  }

  Metadata read_metadata(const json& value) const {
    Metadata metadata;
    if (!value.is_object()) corrupt("has {} that is not an object", kMetadata);
    for (const auto& [key, one] : value.items()) {
      if (!one.is_string()) corrupt("has metadata `{}` that is not text", key);
      metadata.emplace(key, one.get<std::string>());
    }
    return metadata;
  }

  std::uint64_t number(const std::string& name, const json& value) const {
    if (!value.is_number_unsigned())
      corrupt("has `{}` in tensor `{}`, a whole number is expected", value.dump(), name);
    return value.get<std::uint64_t>();
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) corrupt("has no `{}` in tensor `{}`", key, name);
    return *found;
  }

  SafetensorsFile::Entry entry(const std::string& name, const json& value) const {
    SafetensorsFile::Entry entry;
    if (!value.is_object()) corrupt("describes tensor `{}` by something not an object", name);
    const json& dtype = member(name, value, "dtype");
    if (dtype != text(Dtype::kF32) && dtype != text(Dtype::kF64))
      corrupt("has tensor `{}` of type {}, F32 or F64 is expected", name, dtype.dump());
    entry.dtype = dtype == text(Dtype::kF32) ? Dtype::kF32 : Dtype::kF64;

    const json& shape = member(name, value, "shape");
    const json& offsets = member(name, value, "data_offsets");
    if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
      corrupt("has tensor `{}` of shape {} at {}, two lists are expected", name, shape.dump(),
              offsets.dump());
    entry.begin = number(name, offsets[0]);
    entry.end = number(name, offsets[1]);
    const std::uint64_t most = size_ - payload_;
    if (entry.begin > entry.end || entry.end > most)
      corrupt("has tensor `{}` at bytes {} to {}, there are {}", name, entry.begin, entry.end,
              most);

    for (const json& length : shape) entry.shape.push_back(number(name, length));
    const auto elements = elements_of(entry.shape);
    if (!elements) corrupt("has tensor `{}` of the impossible shape {}", name, shape.dump());
    entry.elements = *elements;
    if (entry.elements * width(entry.dtype) != entry.end - entry.begin)
      corrupt("has tensor `{}` of {} bytes, its shape {} of {} needs {}", name,
              entry.end - entry.begin, shape.dump(), text(entry.dtype),
              entry.elements * width(entry.dtype));
    entry.begin += payload_;
    entry.end += payload_;
    return entry;
  }

  void check_order(const std::map<std::string, SafetensorsFile::Entry>& tensors) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const auto& [name, tensor] : tensors) places.emplace_back(tensor.begin, tensor.end);
    std::sort(places.begin(), places.end());
    std::uint64_t at = payload_;
    for (const auto& [begin, end] : places) {
      if (begin != at) corrupt("has a tensor at byte {}, the one before ends at {}", begin, at);
      at = end;
    }
    if (at != size_) corrupt("has {} bytes, its tensors end at byte {}", size_, at);
  }

  const fs::path& path_;
  std::uint64_t size_, payload_ = 0;
  std::string text_;
};

}  // namespace

Tensor::Tensor(std::string tensor_name, std::span<const float> values)
    : Tensor(std::move(tensor_name), values, {values.size()}) {}
Tensor::Tensor(std::string tensor_name, std::span<const double> values)
    : Tensor(std::move(tensor_name), values, {values.size()}) {}
Tensor::Tensor(std::string tensor_name, std::span<const float> values, Shape lengths)
    : name(std::move(tensor_name)),
      dtype(Dtype::kF32),
      bytes(std::as_bytes(values)),
      shape(std::move(lengths)) {
  check_shape(*this);
}
Tensor::Tensor(std::string tensor_name, std::span<const double> values, Shape lengths)
    : name(std::move(tensor_name)),
      dtype(Dtype::kF64),
      bytes(std::as_bytes(values)),
      shape(std::move(lengths)) {
  check_shape(*this);
}

FileMark write_safetensors(const fs::path& path, std::span<const Tensor> tensors,
                           const Metadata& metadata) {
  check_names(tensors, metadata);
  std::vector<const Tensor*> ordered;
  for (const Tensor& tensor : tensors) ordered.push_back(&tensor);
  // Doubles first: then all lie at multiples of their size.
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const Tensor* one) { return one->dtype == Dtype::kF64; });

  const std::string header = header_of(ordered, metadata);
  if (header.size() > kLongestHeader)
    fail(Code::kInvalidArgument,
         "{}: the names of {} tensors take {} bytes, at most {} are possible", path.string(),
         tensors.size(), header.size(), kLongestHeader);
  const std::uint64_t length = header.size();
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(&length, 1)),
                                                    std::as_bytes(std::span(header))};
  for (const Tensor* tensor : ordered) pieces.push_back(tensor->bytes);
  write_file(path, pieces);

  FileMark mark{0, checked_seal(header, kClose, path)};
  for (const auto& piece : pieces) mark.bytes += piece.size();
  return mark;
}

SafetensorsFile::SafetensorsFile(fs::path path) : path_(std::move(path)) {
  const InputFile file(path_);
  const HeaderReader header(path_, file);
  mark_ = {file.size(), header.seal()};
  header.parse(tensors_, metadata_);
}

const SafetensorsFile::Entry* SafetensorsFile::find(const std::string& name) const noexcept {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::verify() const {
  const InputFile file(path_);
  if (file.size() != mark_.bytes)
    fail(Code::kCorrupt, "{} now has {} bytes, {} when it was opened", path_.string(), file.size(),
         mark_.bytes);
  std::vector<std::byte> piece(kPiece);
  for (const auto& [name, tensor] : tensors_) {
    Hash64 hash;
    for (std::uint64_t at = tensor.begin; at < tensor.end; at += kPiece) {
      const auto part = std::span(piece).first(std::min<std::uint64_t>(kPiece, tensor.end - at));
      file.read(at, part);
      hash.add(part);
    }
    if (hex(hash.value()) != tensor.hash)
      fail(Code::kCorrupt, "{}: tensor `{}` hashes to {}, {} was saved: the file is damaged",
           path_.string(), name, hex(hash.value()), tensor.hash);
  }
}

void SafetensorsFile::read(const std::string& name, std::uint64_t first,
                           std::span<float> out) const {
  read_bytes(name, Dtype::kF32, first, std::as_writable_bytes(out));
}

void SafetensorsFile::read(const std::string& name, std::uint64_t first,
                           std::span<double> out) const {
  read_bytes(name, Dtype::kF64, first, std::as_writable_bytes(out));
}

void SafetensorsFile::read_bytes(const std::string& name, Dtype dtype, std::uint64_t first,
                                 std::span<std::byte> out) const {
  const Entry* tensor = find(name);
  if (tensor == nullptr) fail(Code::kCorrupt, "{} has no tensor `{}`", path_.string(), name);
  const std::uint64_t count = out.size() / width(dtype);
  if (tensor->dtype != dtype || first > tensor->elements || count > tensor->elements - first)
    fail(Code::kCorrupt, "{}: tensor `{}` has {} elements of {}, wanted are {} of {} from {} on",
         path_.string(), name, tensor->elements, text(tensor->dtype), count, text(dtype), first);
  InputFile(path_).read(tensor->begin + first * width(dtype), out);
}

}  // namespace laconic::inline checkpoint
