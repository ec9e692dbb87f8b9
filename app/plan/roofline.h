#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "laconic/plan/cost.h"

// Coding on a GPU, calculated: bytes per element over the GPU's memory bandwidth. Nothing here was
// measured; a kernel that runs is slower.
namespace laconic::app::plan {

struct GpuMemory {
  std::string_view name;
  double gb_per_second;  // of the maker's data sheet
};
const std::vector<GpuMemory>& gpu_memories();

// Passes over parameters at that bandwidth; owners combine on the CPU, at the recorded speed. Throws
// Error(kInvalidArgument) for an unknown name.
laconic::plan::Speeds roofline_speeds(std::string_view gpu);

}  // namespace laconic::app::plan
