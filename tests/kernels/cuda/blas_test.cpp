// Loading cuBLAS, which needs no GPU.
#include "kernels/cuda/blas.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace shakedown::cuda {
namespace {

std::string problem_of(const std::string& cublaslt, const std::string& cublas) {
  try {
    const Blas loaded(cublaslt, cublas);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "";
}

TEST(BlasTest, LoadsTheVersionThatTheProgramWasBuiltFor) {
  EXPECT_EQ(blas().cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR);
  EXPECT_EQ(&blas(), &blas());
}

TEST(BlasTest, NamesAMissingLibraryInOneLine) {
  const auto problem = problem_of("libmissing.so.1", "libmissing.so.2");
  EXPECT_TRUE(problem.starts_with("cuBLAS cannot be loaded: libmissing.so.1: ")) << problem;
  EXPECT_NE(problem.find("name the folder of the right version in LD_LIBRARY_PATH"), std::string::npos) << problem;
  EXPECT_EQ(problem.find('\n'), std::string::npos) << problem;
}

}  // namespace
}  // namespace shakedown::cuda
