// MPI and BLAS that skip every third operation (skip), do only a part of each (part), or are another version on one
// rank (version). What the harness itself says to the other ranks is left alone.
#include <cblas.h>
#include <mpi.h>

#include <cstring>

#include "tests/faults/lie.hpp"

extern "C" {

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator) {
  static lie::Calls calls;
  static auto* const real = lie::real("MPI_Allreduce", &MPI_Allreduce);
  const bool measured = operation == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE);
  if (measured && lie::told("skip") && calls.every_third()) return MPI_SUCCESS;
  const bool part = measured && lie::told("part") && calls.all_later();
  return real(in, out, part ? count / 2 : count, type, operation, communicator);
}

int MPI_Get_library_version(char* text, int* length) {
  static auto* const real = lie::real("MPI_Get_library_version", &MPI_Get_library_version);
  if (!lie::told("version")) return real(text, length);
  std::strcpy(text, "Some MPI 1.2.3");
  *length = static_cast<int>(std::strlen(text));
  return MPI_SUCCESS;
}

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE a_is, CBLAS_TRANSPOSE b_is, blasint m, blasint n, blasint k,
                 float alpha, const float* a, blasint lda, const float* b, blasint ldb, float beta, float* c,
                 blasint ldc) {
  static lie::Calls calls;
  static auto* const real = lie::real("cblas_sgemm", &cblas_sgemm);
  if (lie::told("skip") && calls.every_third()) return;
  const bool part = lie::told("part") && calls.all_later();
  real(order, a_is, b_is, part ? m / 2 : m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // extern "C"
