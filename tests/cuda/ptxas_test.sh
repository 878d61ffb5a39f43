#!/usr/bin/env bash
# All kernels, assembled for each architecture that the installed nvcc knows. Needs no GPU. A kernel that spills registers and is
# not in allowed_spills.txt fails, and so does a line there that no kernel needs any more: the list can only shrink.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
needs nvcc c++filt
cd "$root" || exit 1
allowed=tests/cuda/allowed_spills.txt
known=$(nvcc --list-gpu-code)
architectures=()
for architecture in 80 90 100 103 120; do
  grep -qx "sm_$architecture" <<<"$known" && architectures+=("$architecture")
done
expect "nvcc knows some of the architectures: ${architectures[*]}" test "${#architectures[@]}" -gt 0

# As in the build, the kernels of a folder are one file, so that nvcc reads the toolkit's headers once; stream.cu is alone.
sources=0
for folder in kernels/cuda kernels/transformer/cuda; do
  for source in "$folder"/[a-z]*.cu; do
    sources=$((sources + 1))
    [[ $source == */stream.cu ]] || echo "#include \"$source\"" >>"$scratch/$(tr / _ <<<"$folder").cu"
  done
done
echo '#include "kernels/cuda/stream.cu"' >"$scratch/stream.cu"
expect "there are kernels: $sources files" test "$sources" -gt 10

# assemble ARCHITECTURE BATCH: writes "sm_90 FUNCTION BYTES" for each function that spills, without the types of its arguments.
assemble() {
  local name=$2.$1 log=$scratch/$2.$1.log
  mkdir "$scratch/$name"
  nvcc -std=c++20 -O3 -I. --expt-relaxed-constexpr -arch="sm_$1" -cubin -Xptxas=-v --keep --keep-dir "$scratch/$name" \
    -o "$scratch/$name.cubin" "$scratch/$2.cu" >"$log" 2>&1 || echo "$name" >>"$scratch/failed"
  awk '/Function properties for/ { name = $NF } /spill stores/ { if ($5 + $9 > 0) print name, $5 + $9 }' "$log" |
    while read -r function bytes; do
      echo "sm_$1 $(c++filt "$function" | sed 's/(anonymous namespace):://g; s/_INTERNAL_[a-z0-9_]*:://g; s/^void //
        s/(\([A-Za-z0-9:]*\))\([0-9]\)/\1=\2/g; s/(.*//; s/shakedown::\(cuda::\)\?//g; s/ //g') $bytes"
    done >"$scratch/$name.spills"
  grep -c 'ld.global.nc.L1::no_allocate.v8.b32' "$scratch/$name/$2.ptx" >"$scratch/$name.wide"
  rm -r "${scratch:?}/$name"
}

touch "$scratch/failed"
for architecture in "${architectures[@]}"; do
  for batch in kernels_cuda kernels_transformer_cuda stream; do assemble "$architecture" $batch & done
  wait
done
while read -r name; do
  fail "the kernels of $name do not compile"
  grep -v 'ptxas info' "$scratch/$name.log" | tail -n 5
done <"$scratch/failed"
cat "$scratch"/*.spills | sort -u >"$scratch/all"
cut -d' ' -f1,2 "$scratch/all" | sort -u >"$scratch/spilling"
grep -v '^#' $allowed | sort >"$scratch/allowed"
others=$(comm -23 "$scratch/spilling" "$scratch/allowed")
expect "no other kernel spills than those in $allowed: ${others:-none}" test -z "$others"
for architecture in "${architectures[@]}"; do grep "^sm_$architecture " "$scratch/allowed"; done | sort >"$scratch/here"
needless=$(comm -13 "$scratch/spilling" "$scratch/here")
expect "and each of them does; remove: ${needless:-none}" test -z "$needless"
sed 's/^/  /' "$scratch/all"

# Streams access 32 bytes at once where the architecture can, and only there.
for architecture in "${architectures[@]}"; do
  count=$(cat "$scratch/stream.$architecture.wide")
  if ((architecture < 100)); then
    expect "sm_$architecture has no loads of 32 bytes" test "$count" -eq 0
  else
    expect "sm_$architecture has loads of 32 bytes: $count" test "$count" -gt 0
  fi
done

finish
