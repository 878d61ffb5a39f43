# Tests of the CUDA backend; included where it is built. Without a GPU the part that needs none runs, and the test counts
# as skipped.
shakedown_test(cuda_test gpu
  SOURCES cuda_test.cpp cuda_collectives_test.cpp cuda_gemm_test.cpp cuda_memory_test.cpp LIBRARIES shakedown::kernels shakedown_cuda)
set_tests_properties(gpu.cuda_test PROPERTIES SKIP_RETURN_CODE 77)

# For tests/faults/planted.sh: a load on one GPU beside a measurement.
add_executable(gpu_load faults/gpu_load.cu)
target_link_libraries(gpu_load PRIVATE CUDA::cudart)
