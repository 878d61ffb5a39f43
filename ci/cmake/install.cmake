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
file(GLOB profiles CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/thresholds/*.yaml)
install(FILES ${profiles} DESTINATION share/shakedown/thresholds)
install(FILES ${PROJECT_BINARY_DIR}/share/shakedown/families DESTINATION share/shakedown)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/shakedown)

# cpack -G DEB: the installed files, with the package dependencies that dpkg-shlibdeps finds. Libraries without a package, such
# as those from NVIDIA's installer of the CUDA Toolkit, are searched where they were linked, and are no dependencies.
set(CPACK_PACKAGE_NAME shakedown)
set(CPACK_PACKAGE_CONTACT "the Shakedown authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "acceptance test for GPU nodes and clusters")
set(CPACK_PACKAGING_INSTALL_PREFIX /opt/shakedown)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, procps")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_GENERATOR DEB)
include(CPack)
