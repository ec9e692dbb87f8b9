# LibTorch: the user's (Torch_DIR, CMAKE_PREFIX_PATH), else the one in the .venv that ./run makes.
if(NOT Torch_DIR)
  file(GLOB venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch/share/cmake)
  list(APPEND CMAKE_PREFIX_PATH ${venv})
endif()
# It warns of parts that no program needs.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
find_package(Torch QUIET)
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LACONIC_WITH_TORCH is ON and no LibTorch was found: run `./run build`, which puts torch into .venv, "
    "or give -DTorch_DIR=<torch>/share/cmake/Torch, or configure with -DLACONIC_WITH_TORCH=OFF")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${Torch_DIR}")

# torch.h costs half a minute a file: it is compiled once, here, and every target with torch reuses it.
add_library(laconic_torch_header OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_header.cc)
target_precompile_headers(laconic_torch_header PRIVATE <torch/torch.h>)

# laconic_use_torch(target scope): links LibTorch, with the precompiled header.
function(laconic_use_torch target scope)
  target_link_libraries(${target} ${scope} torch torch_library)
  # LibTorch's folder has the headers of another fmt, without its library, and stands before the system's.
  target_compile_definitions(${target} ${scope} FMT_HEADER_ONLY)
  laconic_torch_settings(${target})
  target_precompile_headers(${target} REUSE_FROM laconic_torch_header)
endfunction()

# What must be equal where a precompiled header is shared. ccache needs to see that one is used.
function(laconic_torch_settings target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -O2 -g1 -ffp-contract=off
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
target_link_libraries(laconic_torch_header PRIVATE torch torch_library)
laconic_torch_settings(laconic_torch_header)
