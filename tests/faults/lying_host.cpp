// MPI, BLAS and copies with faults, selected by SHAKEDOWN_LIE. The harness's own messages between ranks stay correct.
// - skip omits every third operation;
// - part executes only a part of each operation;
// - version reports another MPI version on one rank;
// - flip and bits change one bit of the output of one rank, far below the tolerance of a product: flip in one of ten
//   operations, bits in all;
// - percent changes one element of each f32 product on one rank by 1 %.
#include <cblas.h>
#include <mpi.h>

#include <cstring>

#include "tests/faults/lie.hpp"

namespace {

constexpr std::size_t measured_bytes = std::size_t{1} << 20;  // copies of at least this size are measured copies

/// Flips the lowest bit of a 32-bit word in the middle.
void flip(void* begin, std::size_t bytes) { static_cast<unsigned char*>(begin)[bytes / 8 * 4] ^= 1U; }

bool flips() {
  static lie::Calls calls;
  return lie::told("flip") && calls.one_in_ten();
}

std::size_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  MPI_Type_size(type, &size);
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
}

}  // namespace

extern "C" {

/// Only measured operations copy buffers of this size.
void* memcpy(void* to, const void* from, std::size_t bytes) noexcept {
  memmove(to, from, bytes);
  if (bytes >= measured_bytes && flips()) flip(to, bytes);
  return to;
}

int MPI_Allgather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm communicator) {
  static auto* const real = lie::real("MPI_Allgather", &MPI_Allgather);
  const auto status = real(in, count, type, out, out_count, out_type, communicator);
  if (type == MPI_BYTE && flips()) flip(out, bytes_of(out_count, out_type));
  return status;
}

int MPI_Alltoall(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                 MPI_Comm communicator) {
  static auto* const real = lie::real("MPI_Alltoall", &MPI_Alltoall);
  const auto status = real(in, count, type, out, out_count, out_type, communicator);
  if (flips()) flip(out, bytes_of(out_count, out_type));
  return status;
}

int MPI_Reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op operation,
                             MPI_Comm communicator) {
  static auto* const real = lie::real("MPI_Reduce_scatter_block", &MPI_Reduce_scatter_block);
  const auto status = real(in, out, count, type, operation, communicator);
  if (flips()) flip(out, bytes_of(count, type));
  return status;
}

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm communicator) {
  static lie::Calls calls;
  static auto* const real = lie::real("MPI_Allreduce", &MPI_Allreduce);
  const bool measured = operation == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE);
  if (measured && lie::told("skip") && calls.every_third()) return MPI_SUCCESS;
  const bool part = measured && lie::told("part") && calls.all_later();
  const auto status = real(in, out, part ? count / 2 : count, type, operation, communicator);
  if (measured && flips()) flip(out, bytes_of(count, type));
  return status;
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
  if (lie::told("percent")) c[static_cast<std::size_t>(m) * static_cast<std::size_t>(n) / 2] *= 1.01F;
  if (lie::told("bits") || flips()) flip(c, sizeof(float) * static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
}

}  // extern "C"
