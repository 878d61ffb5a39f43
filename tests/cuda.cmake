# Tests of the CUDA backend, included if it is built. Without a GPU, only the part that needs none runs, and the test is
# skipped.
shakedown_test(cuda_test gpu SHARDS 2
  SOURCES kernels/cuda/blas_test.cpp kernels/cuda/tiling_test.cpp kernels/cuda/kernel_times_test.cpp kernels/cuda/device_test.cpp kernels/cuda/collectives_test.cpp kernels/cuda/gemm_test.cpp kernels/cuda/memory_test.cpp
    kernels/cuda/sm_test.cpp
    kernels/transformer/cuda/training_layers_test.cpp kernels/transformer/cuda/training_optimizer_test.cpp kernels/transformer/cuda/training_products_test.cpp
    kernels/transformer/cuda/training_attention_test.cpp kernels/transformer/cuda/lora_test.cpp
    kernels/transformer/cuda/quantize_test.cpp kernels/transformer/cuda/decode_test.cpp
  LIBRARIES shakedown::transformer shakedown_transformer_cuda shakedown::results)
# For the fault tests: libraries with faults, and another user of a GPU during a measurement.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
find_package(NCCL REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # as in kernels/CMakeLists.txt
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
add_library(faulty_sm OBJECT kernels/cuda/faulty_sm.cu)
set_target_properties(faulty_sm PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_STANDARD 20)
target_compile_options(faulty_sm PRIVATE --expt-relaxed-constexpr)
target_link_libraries(faulty_sm PRIVATE shakedown_options shakedown::base CUDA::cudart)
target_sources(cuda_test PRIVATE $<TARGET_OBJECTS:faulty_sm>)
add_library(lying_cuda MODULE faults/lying_cuda.cpp faults/planted.cu $<TARGET_OBJECTS:faulty_sm>)
target_link_libraries(lying_cuda PRIVATE shakedown_options CUDA::cudart CUDA::cublasLt NCCL::nccl ${CMAKE_DL_LIBS})
add_library(lying_nvml MODULE faults/lying_nvml.cpp)
target_link_libraries(lying_nvml PRIVATE shakedown_options ${CMAKE_DL_LIBS})
find_package(CUDNN 9 QUIET)
if(CUDNN_FOUND)
  add_library(refusing_cudnn MODULE faults/refusing_cudnn.cpp)
  target_link_libraries(refusing_cudnn PRIVATE shakedown_options CUDNN::cudnn CUDA::cudart ${CMAKE_DL_LIBS})
  add_executable(cudnn_plans kernels/transformer/cuda/cudnn_plans.cpp)
  target_link_libraries(cudnn_plans PRIVATE shakedown::transformer shakedown_transformer_cuda GTest::gtest_main)
endif()
add_executable(gpu_load faults/gpu_load.cu)
set_target_properties(lying_cuda gpu_load PROPERTIES CUDA_STANDARD 17)
target_link_libraries(gpu_load PRIVATE shakedown_options CUDA::cudart)
# Two halves, each on its own GPU if there are two, and beside faults.faults_test if there are four.
set(first 0)
set(second 0)
if(gpus GREATER 3)
  set(first 2)
  set(second 3)
elseif(gpus GREATER 1)
  set(second 1)
endif()
set_tests_properties(gpu.cuda_test.1 gpu.cuda_test.2 PROPERTIES SKIP_RETURN_CODE 77)
shakedown_on_gpus(gpu.cuda_test.1 ${first} ${first} 4)
shakedown_on_gpus(gpu.cuda_test.2 ${second} ${second} 4)

foreach(program lora_dump decode_profile)
  add_executable(cuda_${program} kernels/transformer/cuda/${program}.cpp)
  target_link_libraries(cuda_${program} PRIVATE shakedown::transformer shakedown_transformer_cuda)
endforeach()
