# Tests of the CUDA backend; included where it is built. Without a GPU the part that needs none runs, and the test counts
# as skipped.
shakedown_test(cuda_test gpu
  SOURCES cuda_test.cpp cuda_collectives_test.cpp cuda_gemm_test.cpp cuda_memory_test.cpp
    cuda_training_test.cpp cuda_lora_test.cpp
  LIBRARIES shakedown::kernels shakedown_cuda)
set_tests_properties(gpu.cuda_test PROPERTIES SKIP_RETURN_CODE 77)

foreach(program cuda_lora_profile cuda_lora_dump)
  add_executable(${program} ${program}.cpp)
  target_link_libraries(${program} PRIVATE shakedown::kernels shakedown_cuda)
endforeach()
