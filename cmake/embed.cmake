# Text files as constants of a C++ source, each given as name=file:
#   cmake -DOUT=page.cc -DNAMESPACE=a::b "-DTEXTS=kStyle=report.css;kScript=report.js" -P embed.cmake
set(text "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
foreach(pair IN LISTS TEXTS)
  string(REGEX MATCH "^([^=]+)=(.+)$" pair "${pair}")
  file(READ "${CMAKE_MATCH_2}" content)
  string(APPEND text
    "extern const std::string_view ${CMAKE_MATCH_1};\n"
    "const std::string_view ${CMAKE_MATCH_1} = R\"embedded(${content})embedded\";\n\n")
endforeach()
file(WRITE "${OUT}" "${text}}  // namespace ${NAMESPACE}\n")
