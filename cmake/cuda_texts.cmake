# The text of the CUDA kernels and of what they include, as constants of a C++ source: LACONIC_CUDA_TEXTS.
set(LACONIC_CUDA_TEXTS ${PROJECT_BINARY_DIR}/cuda_texts.cc)
set(texts)
foreach(pair
    kArguments=device/cuda/arguments.h
    kArithmetic=kernels/arithmetic.h
    kArray=device/cuda/standard/array
    kBlock=device/cuda/block.h
    kCmath=device/cuda/standard/cmath
    kCstdint=device/cuda/standard/cstdint
    kDecode=device/cuda/decode.cu
    kDecodeHeader=device/cuda/decode.h
    kEncodeDense=device/cuda/encode_dense.cu
    kEncodeHeader=device/cuda/encode.h
    kEncodeIntegers=device/cuda/encode_integers.cu
    kEncodeSign=device/cuda/encode_sign.cu
    kEncodeTopK=device/cuda/encode_top_k.cu
    kLanes=device/cuda/lanes.h
    kPasses=device/cuda/passes.cu
    kRandom=core/random.h
    kSigns=device/cuda/signs.cu
    kSource=device/cuda/source.h
    kTensors=device/cuda/tensors.cu)
  string(REGEX MATCH "^([^=]+)=(.+)$" pair ${pair})
  list(APPEND texts ${CMAKE_MATCH_1}=${PROJECT_SOURCE_DIR}/laconic/${CMAKE_MATCH_2})
  list(APPEND files ${PROJECT_SOURCE_DIR}/laconic/${CMAKE_MATCH_2})
endforeach()
add_custom_command(OUTPUT ${LACONIC_CUDA_TEXTS}
  COMMAND ${CMAKE_COMMAND} -DOUT=${LACONIC_CUDA_TEXTS} -DNAMESPACE=laconic::cuda::texts
    "-DTEXTS=${texts}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  VERBATIM)
