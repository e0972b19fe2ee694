# parsyn_embed(TARGET FILE f HEADER h NAMESPACE n FUNCTION g): the text of file f as n::g(), declared in header h as
# returning std::string_view. The file is read when CMake configures, which it does again when the file has changed.
set(PARSYN_EMBED_TEMPLATE ${CMAKE_CURRENT_LIST_DIR}/embed.cpp.in)

function(parsyn_embed target)
  cmake_parse_arguments(EMBED "" "FILE;HEADER;NAMESPACE;FUNCTION" "" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${EMBED_FILE})
  file(READ ${PROJECT_SOURCE_DIR}/${EMBED_FILE} text)
  string(LENGTH "${text}" length)
  # Compilers bound the length of one literal, and join neighbours.
  set(EMBED_LITERALS "")
  foreach(start RANGE 0 ${length} 8000)
    string(SUBSTRING "${text}" ${start} 8000 piece)
    string(APPEND EMBED_LITERALS "R\"parsyn(${piece})parsyn\"\n")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded/${EMBED_FUNCTION}.cpp)
  configure_file(${PARSYN_EMBED_TEMPLATE} ${source} @ONLY)
  target_sources(${target} PRIVATE ${source})
endfunction()
