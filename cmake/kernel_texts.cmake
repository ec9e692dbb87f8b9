# LACONIC_KERNEL_TEXTS: a source with the text of the CUDA kernels and of what they include.
set(kernels decode.cu encode_dense.cu encode_integers.cu encode_sign.cu encode_top_k.cu passes.cu signs.cu tensors.cu)
set(headers
  laconic/core/random.h
  laconic/device/cuda/arguments.h
  laconic/device/cuda/block.h
  laconic/device/cuda/decode.h
  laconic/device/cuda/encode.h
  laconic/device/cuda/lanes.h
  laconic/device/cuda/source.h
  laconic/kernels/arithmetic.h
)
set(LACONIC_KERNEL_TEXTS ${CMAKE_CURRENT_BINARY_DIR}/generated/kernel_texts.cc)
list(TRANSFORM kernels PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/laconic/device/cuda/ OUTPUT_VARIABLE texts)
list(TRANSFORM headers PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE more)
add_custom_command(OUTPUT ${LACONIC_KERNEL_TEXTS}
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_SOURCE_DIR} -DOUT=${LACONIC_KERNEL_TEXTS}
    "-DKERNELS=${kernels}" "-DHEADERS=${headers}" -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_kernels.cmake
  DEPENDS ${texts} ${more} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_kernels.cmake
  VERBATIM)
