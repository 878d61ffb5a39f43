/* Tests a GPU from inside a running job, between two of its steps: libshakedown_sniff.so. The library needs neither
 * CUDA nor MPI. The measurement is a process of its own (shakedown accept --gate), so that a fault of the GPU or of its
 * driver does not end the job. */
#ifndef SHAKEDOWN_SNIFF_H
#define SHAKEDOWN_SNIFF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum shakedown_sniff_result {
  SHAKEDOWN_SNIFF_GOOD = 0,    /* matrix products and memory have the rate and the bits of a healthy GPU */
  SHAKEDOWN_SNIFF_FAULT = 1,   /* the line names the fault */
  SHAKEDOWN_SNIFF_USAGE = 2,   /* an argument is wrong */
  SHAKEDOWN_SNIFF_UNKNOWN = 3, /* not measured or not judged, for example if memory is short: the line says why */
};

/* Measures a matrix product (bf16) and a copy in memory on one GPU, checks their data, and judges them by the
 * profile of the GPU, and by its earlier accepted runs if SHAKEDOWN_LEDGER is set. The call needs some seconds
 * and 9 GB of free memory on the GPU. The caller must leave the GPU idle until the call returns.
 *
 * gpu: UUID, such as "GPU-4f2a...", or a number or UUID as in CUDA_VISIBLE_DEVICES; "" measures the processor instead.
 * seconds: limit of the call, from 5 to 600. The call returns at most three seconds after it, also if the
 * GPU hangs. After a call that ended by time, the test may hold the GPU for some seconds more.
 * line: gets the verdict as one line without a newline, cut to `size` bytes with the final 0. May be null if size is 0.
 *
 * The program is bin/shakedown next to the lib folder of this library, or SHAKEDOWN_PROGRAM. If the job ignores
 * SIGCHLD, the system discards the exit code of the program, and the result is always unknown. Several threads may call
 * it for different GPUs. */
int shakedown_sniff(const char* gpu, double seconds, char* line, size_t size);

#ifdef __cplusplus
}
#endif

#endif
