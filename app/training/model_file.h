#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace torch::nn {
class Module;
}

// A trained model as a safetensors file: parameters and running statistics by name, and how it came
// about in the metadata.
namespace laconic::app::training {

// Error(kFile) with the path; what was there before stays.
void write_model(const std::filesystem::path& path, const ::torch::nn::Module& model,
                 const std::map<std::string, std::string>& metadata);

enum class Names : bool { kAll, kShared };  // every tensor of the model; those that both have

// Copies the tensors of the file to those of equal name. Returns how many. Error(kInvalidArgument)
// with both shapes when they differ, naming the missing one where kAll are wanted, and when none
// is shared.
std::size_t read_model(const std::filesystem::path& path, ::torch::nn::Module& model, Names names);

}  // namespace laconic::app::training
