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

# laconic_use_torch(target scope): links LibTorch. Its headers cost a quarter of a minute a file, and a precompiled one two
# minutes: the files of a target are compiled as one.
function(laconic_use_torch target scope)
  target_link_libraries(${target} ${scope} torch torch_library)
  # LibTorch's folder has the headers of another fmt, without its library, and stands before the system's.
  target_compile_definitions(${target} ${scope} FMT_HEADER_ONLY)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -O2 -g1 -ffp-contract=off
    # It takes a file that is part of a larger one for a header.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${LACONIC_UNITY} UNITY_BUILD_BATCH_SIZE 0)
endfunction()
