# The kernels' text inside the library:
#   cmake -DROOT=. -DOUT=texts.cc "-DKERNELS=encode.cu;…" "-DHEADERS=laconic/kernels/arithmetic.h;…" -P embed_kernels.cmake
# KERNELS lie in laconic/device/cuda, HEADERS are named as they are included.
function(embed list names folder)
  foreach(name IN LISTS names)
    file(READ "${ROOT}/${folder}${name}" content)
    string(APPEND text "    {\"${name}\", R\"embedded(${content})embedded\"},\n")
  endforeach()
  file(APPEND "${OUT}" "\nextern const Text ${list}[];\nextern const std::size_t ${list}Count;\n"
    "const Text ${list}[] = {\n${text}};\nconst std::size_t ${list}Count = std::size(${list});\n")
endfunction()
file(WRITE "${OUT}" "#include <iterator>\n\n#include \"laconic/device/cuda/kernels.h\"\n\nnamespace laconic::cuda {\n")
embed(kKernelTexts "${KERNELS}" laconic/device/cuda/)
embed(kHeaderTexts "${HEADERS}" "")
file(APPEND "${OUT}" "\n}  // namespace laconic::cuda\n")
