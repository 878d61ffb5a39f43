#!/usr/bin/env bash
# Inventory and pre-flight as programs, alone and under mpirun, on machines simulated by a root folder and a replacement
# of NVML. Also tests that the other benchmarks do not run if pre-flight fails.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
bench=$build/bench
export SHAKEDOWN_RUN_ID=preflight-test

# --- this machine -------------------------------------------------------------------------------------------------------
run 0 "$bench/inventory"
expect "the summary tells processors and system" eval 'prints "^  CPU " && prints "kernel"'
run 0 "$bench/inventory" all --json
expect "JSON is one strict document" eval 'python3 -m json.tool <out >/dev/null 2>&1 || ! command -v python3 >/dev/null'
for view in summary gpu nvlink ib cpu software; do run 0 "$bench/inventory" "$view"; done
run 2 "$bench/inventory" nosuch
expect "an unknown view is refused by name" says 'nosuch: unknown'
run 0 "$build/bin/shakedown" inventory summary
expect "the front door has it too" prints '^  CPU '
run 2 "$build/bin/shakedown" inventory nosuch
expect "  with its refusals" says 'nosuch: unknown'
run 0 mpi -np 2 "$bench/inventory"
expect "two ranks of one host print it once" test "$(grep -c '^  CPU ' out)" = 1

run 0 mpi -np 3 "$bench/bench_preflight" --backend=host --benchmark_out=own.json --shared-folder="$scratch"
"$build/tests/acceptance_test" --results=own.json --families=preflight >judged 2>&1
expect "this machine is judged by the host profile" grep -qE '^VERDICT: (HOST-ONLY|FAIL) .*profile host, 3 ranks' judged
expect "nothing is left in the shared folder" eval '! compgen -G "shakedown-*" >/dev/null'
run 2 "$bench/bench_preflight" --backend=host --shared-folder=/nonexistent
expect "a shared folder that is not there is refused" says '/nonexistent: '
run 0 taskset -c 0 mpirun --bind-to none --oversubscribe -np 4 "$bench/bench_preflight" --backend=host --benchmark_out=pinned.json
"$build/tests/acceptance_test" --results=pinned.json --families=preflight --all >judged 2>&1
expect "ranks on one core are counted" grep -q 'ranks_per_core, 4' judged

# --- a machine with eight GPUs on its bus and seven in NVML ---------------------------------------------------------------
machine() {
  mkdir -p "$1"/{proc/sys/kernel,sys/bus/pci/devices,sys/class,sys/module}
  local gpu
  for gpu in 0 1 2 3 4 5 6 7; do
    mkdir -p "$1/sys/bus/pci/devices/0000:1$gpu:00.0"
    echo 0x10de >"$1/sys/bus/pci/devices/0000:1$gpu:00.0/vendor"
    echo 0x030200 >"$1/sys/bus/pci/devices/0000:1$gpu:00.0/class"
  done
  echo 6.8.0 >"$1/proc/sys/kernel/osrelease"
}
machine sick
printf 'gpus 7\ndriver 580.159.03\n* nvmlDeviceGetCurrPcieLinkWidth 16\n2 nvmlDeviceGetCurrPcieLinkWidth 8\n* nvmlDeviceGetMaxPcieLinkWidth 16\n' >sick.txt
fake=(env SHAKEDOWN_ROOT="$scratch/sick" SHAKEDOWN_NVML="$(find "$build/tests" -name 'libfake_nvml.so')" SHAKEDOWN_FAKE_NVML="$scratch/sick.txt")
run 0 "${fake[@]}" "$bench/inventory"
expect "inventory counts healthy GPUs" prints 'GPU health +6/8'
expect "  names the GPU that is missing" prints '0000:17:00.0'
expect "  and the narrow link" prints 'GPU2 0000:12:00.0: PCIe x8 of x16'
run 0 mpi -np 8 "${fake[@]}" "$bench/bench_preflight" --benchmark_out=sick.json
expect "the result says that the machine was made up" grep -q '"fault": "SHAKEDOWN_' sick.json
run 2 "$build/tests/acceptance_test" --results=sick.json --families=preflight
run 1 "$build/tests/acceptance_test" --results=sick.json --families=preflight --allow-faults
expect "it is judged as what its GPUs are" prints '^VERDICT: FAIL .*profile h200-sxm, 8 ranks'
expect "  the missing GPU fails it" eval 'prints "fail: preflight/of:host gpus_missing, 1" && prints "0000:17:00.0"'
expect "  so does the narrow link, with its GPU" eval 'prints "fail: preflight/of:gpu pcie_width, 8|missing: preflight/of:gpu pcie_width" && prints "rank 7"'
expect "  what cannot be read is missing" prints 'missing: preflight/of:gpu ecc'
expect "  that CUDA opens none is said for each rank" prints 'fail: preflight/of:gpu cuda_opens, 0'

# --- rails of a site file, which lose symbols while they are measured ------------------------------------------------------
for nic in 0 1; do
  port=railed/sys/class/infiniband/mlx5_$nic/ports/1
  mkdir -p "$port/counters" railed/sys/bus
  echo '4: ACTIVE' >"$port/state" && echo '400 Gb/sec' >"$port/rate" && echo InfiniBand >"$port/link_layer"
  echo 0 >"$port/counters/symbol_error"
done
lose_symbols() {
  local n
  for ((n = 1; ; n += 50)); do
    for nic in 0 1; do  # by a new file: the program must not read an empty one
      echo "$n" >lost && mv lost "railed/sys/class/infiniband/mlx5_$nic/ports/1/counters/symbol_error"
    done
    sleep 0.02
  done
}
printf 'schema: 2\nsite: here\nrails: [mlx5_1]\n' >rails.yaml
lose_symbols &
run 0 env SHAKEDOWN_ROOT="$scratch/railed" "$bench/bench_hbm" --backend=host --site=rails.yaml --benchmark_out=railed.json
kill $! && wait
run 1 "$build/tests/acceptance_test" --results=railed.json --allow-faults
expect "the host fails with the port that the site names" eval 'prints "^fail: machine/errors/host:" && prints "mlx5_1/1: [0-9]+ symbol errors"'
expect "  and with no other one" eval '! prints "mlx5_0/1"'

# --- the gate -----------------------------------------------------------------------------------------------------------
# launch/front_door_test.sh tests how the gate closes.
mkdir failed
cp "$root/tests/data/preflight/h200-sxm-4ranks-pinned.json" failed/preflight.json
run 1 "$build/tests/acceptance_test" --results=failed
expect "the verdict is FAIL and says that the rest was not measured" prints 'no other family.*gemm'
expect "  in one finding" eval '! prints "^missing: (gemm|hbm|p2p|allreduce)"'
expect "CTest runs no benchmark before the gate" eval '[[ $(grep -c "FIXTURES_REQUIRED \"run;cleared\"" "$build/bench/CTestTestfile.cmake") -ge 7 ]]'

# --- two hosts in namespaces: another driver and no network on the second ---------------------------------------------------
agent=$root/tests/faults/fakehost.sh
if "$agent" probe true 2>/dev/null; then
  machine nodea && machine nodeb
  printf 'gpus 8\ndriver 580.159.03\n' >nodea.txt
  printf 'gpus 8\ndriver 570.86\n' >nodeb.txt
  cat >on_host <<END
#!/usr/bin/env bash
h=\$(hostname)
export SHAKEDOWN_ROOT=$scratch/\$h SHAKEDOWN_FAKE_NVML=$scratch/\$h.txt SHAKEDOWN_NVML=$(find "$build/tests" -name 'libfake_nvml.so')
[[ \$h == nodea ]] || export NCCL_SOCKET_IFNAME=nosuch
exec "\$@"
END
  chmod +x on_host
  hosts=(mpirun --bind-to none --oversubscribe --host "nodea:1,nodeb:1" --mca plm_rsh_agent "$agent" -np 2 -x SHAKEDOWN_RUN_ID ./on_host)
  run 0 "${hosts[@]}" "$bench/inventory"
  expect "inventory names what differs between hosts" prints '  driver 570.86 on nodeb, 580.159.03 on nodea'
  run 0 "${hosts[@]}" "$bench/bench_preflight" --benchmark_out="$scratch/two.json"
  run 1 "$build/tests/acceptance_test" --results=two.json --families=preflight --allow-faults
  expect "the wrong driver is named with its host" prints '  driver 570.86 on nodeb, 580.159.03 on nodea'
  expect "a host that cannot be reached is named" prints 'nodeb has no'
  expect "  and says itself which setting leaves it none" prints 'NCCL_SOCKET_IFNAME=nosuch'
else
  echo "SKIP: namespaces need root"
fi
finish
