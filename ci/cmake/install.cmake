# An installed copy can be moved: no file contains its folder. Libraries that a node may lack are in lib/. The search path has
# the folders of the CUDA libraries at build time after that.
foreach(family IN LISTS SHAKEDOWN_FAMILIES ITEMS all)
  list(APPEND programs bench_${family})
endforeach()
list(APPEND programs shakedown acceptance_test inventory)
set(rpath "$ORIGIN/../lib" ${SHAKEDOWN_CUDA_FOLDERS})
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "${rpath}")
install(TARGETS ${programs} RUNTIME DESTINATION bin)
install(DIRECTORY DESTINATION lib)
install(TARGETS shakedown_sniff LIBRARY DESTINATION lib)
install(FILES ${PROJECT_SOURCE_DIR}/launch/sniff/shakedown_sniff.h DESTINATION include)
file(GLOB profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/thresholds/*.yaml)
install(FILES ${profiles} DESTINATION share/shakedown/thresholds)
file(GLOB noise CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/thresholds/rehearsal/noise/*.yaml)
install(FILES ${noise} DESTINATION share/shakedown/thresholds/rehearsal/noise)
install(FILES ${PROJECT_BINARY_DIR}/share/shakedown/families DESTINATION share/shakedown)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/shakedown)

# The list of software (SPDX) is made from the installed programs.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND)
  set(loaded_libraries "")
  foreach(library IN LISTS SHAKEDOWN_CUDA_LOADED)
    find_file(loaded_file ${library} PATHS ${SHAKEDOWN_CUDA_FOLDERS} NO_DEFAULT_PATH NO_CACHE)
    if(loaded_file)
      string(APPEND loaded_libraries "${library} ${loaded_file}\n")
    endif()
    unset(loaded_file)
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/loaded_libraries "${loaded_libraries}")
  install(CODE "
    set(tree \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/ci/sbom\" \"\${tree}\" ${PROJECT_VERSION}
        \"${PROJECT_BINARY_DIR}\" INPUT_FILE \"${PROJECT_BINARY_DIR}/loaded_libraries\"
      OUTPUT_FILE \"\${tree}/share/shakedown/sbom.spdx.json\" COMMAND_ERROR_IS_FATAL ANY)")
endif()

# cpack -G DEB: the installed files, with the package dependencies that dpkg-shlibdeps finds, and those of loaded libraries.
# Libraries without a package, such as those from NVIDIA's installer of the CUDA Toolkit, are searched where they were linked,
# and are no dependencies.
set(CPACK_PACKAGE_NAME shakedown)
set(CPACK_PACKAGE_CONTACT "the Shakedown authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "acceptance test for GPU nodes and clusters")
set(CPACK_PACKAGING_INSTALL_PREFIX /opt/shakedown)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, procps")
foreach(library IN LISTS SHAKEDOWN_CUDA_LOADED)  # dpkg-shlibdeps does not see what programs load at run time
  find_file(loaded_file ${library} PATHS ${SHAKEDOWN_CUDA_FOLDERS} NO_DEFAULT_PATH NO_CACHE)
  file(REAL_PATH "${loaded_file}" loaded_file)
  execute_process(COMMAND dpkg-query -S ${loaded_file} OUTPUT_VARIABLE package ERROR_QUIET)
  if(package MATCHES "^([a-z0-9.+-]+)")
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", ${CMAKE_MATCH_1}")
  endif()
  unset(loaded_file)
endforeach()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_GENERATOR DEB)
include(CPack)
