// The functions of cuBLAS and cuBLASLt. The libraries are loaded when a GPU is opened: linked, cuBLASLt alone costs
// each rank of the host backend 85 MB of memory that ranks do not share.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <string>

namespace shakedown::cuda {

/// Members have the names of the functions. cublas_v2.h defines some of these names as macros, for a call as well.
struct Blas {
  /// Loads both libraries, and never unloads them. A preloaded library can replace functions, as if they were linked.
  /// Errors: std::runtime_error with one line if a library or a function is missing.
  Blas(const std::string& cublaslt, const std::string& cublas);

  decltype(&::cublasCreate) cublasCreate;
  decltype(&::cublasDestroy) cublasDestroy;
  decltype(&::cublasDgemm) cublasDgemm;
  decltype(&::cublasSetStream) cublasSetStream;
  decltype(&::cublasSetWorkspace) cublasSetWorkspace;
  decltype(&::cublasLtCreate) cublasLtCreate;
  decltype(&::cublasLtDestroy) cublasLtDestroy;
  decltype(&::cublasLtGetStatusName) cublasLtGetStatusName;
  decltype(&::cublasLtGetStatusString) cublasLtGetStatusString;
  decltype(&::cublasLtGetVersion) cublasLtGetVersion;
  decltype(&::cublasLtMatmul) cublasLtMatmul;
  decltype(&::cublasLtMatmulAlgoCheck) cublasLtMatmulAlgoCheck;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) cublasLtMatmulAlgoConfigGetAttribute;
  decltype(&::cublasLtMatmulAlgoConfigSetAttribute) cublasLtMatmulAlgoConfigSetAttribute;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) cublasLtMatmulAlgoGetHeuristic;
  decltype(&::cublasLtMatmulDescCreate) cublasLtMatmulDescCreate;
  decltype(&::cublasLtMatmulDescDestroy) cublasLtMatmulDescDestroy;
  decltype(&::cublasLtMatmulDescSetAttribute) cublasLtMatmulDescSetAttribute;
  decltype(&::cublasLtMatmulPreferenceCreate) cublasLtMatmulPreferenceCreate;
  decltype(&::cublasLtMatmulPreferenceDestroy) cublasLtMatmulPreferenceDestroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) cublasLtMatmulPreferenceSetAttribute;
  decltype(&::cublasLtMatrixLayoutCreate) cublasLtMatrixLayoutCreate;
  decltype(&::cublasLtMatrixLayoutDestroy) cublasLtMatrixLayoutDestroy;
};

/// Returns the functions of the version that this program was built for. The first call loads them.
const Blas& blas();

}  // namespace shakedown::cuda
