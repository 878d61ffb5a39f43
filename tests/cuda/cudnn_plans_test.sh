#!/usr/bin/env bash
# The attention of the measured models, planned and compiled by cuDNN for GPUs that are not at hand. Needs no GPU. cuDNN loads what it
# compiles, so a stand-in of the driver accepts all kernels and refuses everything else.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
needs nvcc cc nm
plans=$build/tests/cudnn_plans
[[ -x $plans ]] || { echo "SKIP: this build has no cuDNN" && exit 77; }
stub=$(find -L "$(dirname "$(command -v nvcc)")/.." -path '*/stubs/libcuda.so' 2>/dev/null | head -n 1)
[[ -n $stub ]] || { echo "SKIP: the CUDA Toolkit has no stub of the driver, whose names are needed" && exit 77; }

cd "$scratch" || exit 1
nm -D --defined-only "$stub" | awk '$2 != "T" || $3 !~ /^cu[A-Z]/ { next }
  $3 ~ /^cu(Library|Kernel|Module)(Load|Get(Kernel|Function|Module$))/ { print "int " $3 "(void** made) { return *made = made, 0; }"; next }
  { print "int " $3 "(void) { return " ($3 ~ /^cu(Library|Kernel|Module|Func|Occupancy)/ ? 0 : 34) "; }" }' >driver.c
expect "the stand-in has the functions of the driver" test "$(wc -l <driver.c)" -gt 300
run 0 cc -shared -fPIC -o libcuda.so.1 driver.c
limit=900
run 0 env LD_LIBRARY_PATH="$scratch${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$plans"
expect "all plans are compiled" prints 'PASSED'

finish
