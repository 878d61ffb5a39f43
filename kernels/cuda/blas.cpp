#include "kernels/cuda/blas.hpp"

#include <dlfcn.h>

#include <stdexcept>

#include "base/timed_call.hpp"

namespace shakedown::cuda {

namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw std::runtime_error("cuBLAS cannot be loaded: " + problem +
                           "; install it, or name the folder of the right version in LD_LIBRARY_PATH");
}

void load(const std::string& name) {
  const TimedCall call(CallKind::driver, "load " + name);
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) fail(dlerror());
}

template <class Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) fail(std::string("it has no function ") + name);
}

}  // namespace

Blas::Blas(const std::string& cublaslt, const std::string& cublas) {
  load(cublaslt);
  load(cublas);
  find(cublasCreate, "cublasCreate_v2");
  find(cublasDestroy, "cublasDestroy_v2");
  find(cublasDgemm, "cublasDgemm_v2");
  find(cublasSetStream, "cublasSetStream_v2");
  find(cublasSetWorkspace, "cublasSetWorkspace_v2");
  find(cublasLtCreate, "cublasLtCreate");
  find(cublasLtDestroy, "cublasLtDestroy");
  find(cublasLtGetStatusName, "cublasLtGetStatusName");
  find(cublasLtGetStatusString, "cublasLtGetStatusString");
  find(cublasLtGetVersion, "cublasLtGetVersion");
  find(cublasLtMatmul, "cublasLtMatmul");
  find(cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck");
  find(cublasLtMatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  find(cublasLtMatmulAlgoConfigSetAttribute, "cublasLtMatmulAlgoConfigSetAttribute");
  find(cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate");
  find(cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy");
  find(cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  find(cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
  find(cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
  find(cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  find(cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
  find(cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
}

const Blas& blas() {
  static const Blas loaded(SHAKEDOWN_CUBLASLT, SHAKEDOWN_CUBLAS);
  return loaded;
}

}  // namespace shakedown::cuda
