# parsyn_layer(NAME LAYERS a b THIRD_PARTY t u): one object library, parsyn_NAME, of all sources of src/NAME.
#
# A layer's headers are included as "NAME/file.hpp". The folder that makes this path work is a link of its own for each
# layer, so a header of a layer that is not named in LAYERS is not found: a wrong include does not compile.
# The links are shared by all build folders, so that ccache knows again what another build has compiled.
set(PARSYN_LAYER_LINKS ${PROJECT_SOURCE_DIR}/out/layers)

add_library(parsyn_contract INTERFACE)
target_include_directories(parsyn_contract INTERFACE ${PROJECT_SOURCE_DIR}/include)

add_library(parsyn_options INTERFACE)
# The reductions of parsyn are the same on every machine: no contraction into fused multiply-add.
target_compile_options(parsyn_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # A false positive of this release for "text" + std::string (GCC bug 105651).
  target_compile_options(parsyn_options INTERFACE -Wno-restrict)
endif()
if(PARSYN_WERROR)
  target_compile_options(parsyn_options INTERFACE -Werror)
endif()
if(PARSYN_SANITIZE)
  target_compile_options(parsyn_options INTERFACE -fsanitize=${PARSYN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(parsyn_options INTERFACE -fsanitize=${PARSYN_SANITIZE})
  if(PARSYN_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio has a fence that this sanitizer does not understand; GCC warns, and nothing can be done about it here.
    target_compile_options(parsyn_options INTERFACE -Wno-tsan)
  endif()
endif()

function(parsyn_layer name)
  cmake_parse_arguments(LAYER "" "" "LAYERS;THIRD_PARTY" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  file(MAKE_DIRECTORY ${PARSYN_LAYER_LINKS}/${name})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${PARSYN_LAYER_LINKS}/${name}/${name} SYMBOLIC)
  add_library(parsyn_${name} OBJECT ${sources})
  target_include_directories(parsyn_${name} PUBLIC ${PARSYN_LAYER_LINKS}/${name})
  target_link_libraries(parsyn_${name} PUBLIC parsyn_contract PRIVATE parsyn_options ${LAYER_THIRD_PARTY})
  foreach(below ${LAYER_LAYERS})
    # Headers only: objects are linked once, by whoever links the whole.
    target_include_directories(parsyn_${name} PRIVATE ${PARSYN_LAYER_LINKS}/${below})
  endforeach()
  set_property(TARGET parsyn_${name} PROPERTY PARSYN_THIRD_PARTY "${LAYER_THIRD_PARTY}")
  set_property(TARGET parsyn_${name} PROPERTY PARSYN_BELOW "${LAYER_LAYERS}")
endfunction()

# All objects of the named layers, and what these need of third parties, for a target that links them.
function(parsyn_link_layers target)
  foreach(name ${ARGN})
    get_property(third_party TARGET parsyn_${name} PROPERTY PARSYN_THIRD_PARTY)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:parsyn_${name}>)
    target_include_directories(${target} PRIVATE ${PARSYN_LAYER_LINKS}/${name})
    target_link_libraries(${target} PRIVATE ${third_party})
  endforeach()
  target_link_libraries(${target} PRIVATE parsyn_contract parsyn_options)
endfunction()

function(parsyn_library name)
  cmake_parse_arguments(LIB "" "" "LAYERS" ${ARGN})
  add_library(${name} STATIC)
  add_library(parsyn::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  # The contract's headers are C++20, whatever else the host is.
  target_compile_features(${name} INTERFACE cxx_std_20)
  parsyn_link_layers(${name} ${LIB_LAYERS})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

function(parsyn_torch_library)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/torch/*.cpp)
  add_library(parsyn_torch STATIC ${sources})
  add_library(parsyn::torch ALIAS parsyn_torch)
  file(MAKE_DIRECTORY ${PARSYN_LAYER_LINKS}/torch)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/torch ${PARSYN_LAYER_LINKS}/torch/torch SYMBOLIC)
  target_include_directories(parsyn_torch PRIVATE ${PARSYN_LAYER_LINKS}/torch ${PARSYN_LAYER_LINKS}/core)
  target_link_libraries(parsyn_torch PUBLIC parsyn PRIVATE ${TORCH_LIBRARIES})
  # libtorch's headers are not clean under our warnings, and some of its flags are C++14's.
  target_include_directories(parsyn_torch SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
  target_compile_options(parsyn_torch PRIVATE -Wall -Wextra -ffp-contract=off)
  if(PARSYN_WERROR)
    target_compile_options(parsyn_torch PRIVATE -Werror)
  endif()
endfunction()
