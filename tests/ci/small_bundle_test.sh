#!/usr/bin/env bash
# ci/bundle --small: where it finds a node's CUDA libraries, and which versions it takes. The node, its libraries and programs
# are simulated and print where they come from. Their versions exist on no real machine, and no CUDA is needed.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs readelf python3 gcc cmake mpirun ldconfig
unset CUDA_HOME VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH LD_PRELOAD

# A build whose benchmarks need four libraries, and load a fifth.
mkdir source && cd source || exit 1
for name in cublas cudart cublasLt nccl cudnn; do
  echo "const char* of_$name(void) { return FROM; }" >$name.c
  echo "#include <stdio.h>
const char* of_$name(void);" >>main.c
done
echo '#include <dlfcn.h>
int main(int count, char** words) {
  void* cublas = dlopen("libcublas.so.913", RTLD_NOW);
  const char* (*of_cublas)(void) = cublas ? (const char* (*)(void))dlsym(cublas, "of_cublas") : 0;
  printf("cublas:%s cudart:%s cublasLt:%s nccl:%s cudnn:%s words:%d %s\n", cublas ? of_cublas() : dlerror(), of_cudart(), of_cublasLt(), of_nccl(), of_cudnn(), count - 1, words[count - 1]);
}' >>main.c
cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(shakedown VERSION 9.9.9 LANGUAGES C)
add_compile_definitions(FROM="build")
set(SHAKEDOWN_CUDA_LOADED libcublas.so.913 CACHE INTERNAL "")
set(SHAKEDOWN_CUDA_FOLDERS \${PROJECT_BINARY_DIR} CACHE INTERNAL "")
foreach(library cublas 913 cudart 913 cublasLt 913 nccl 902 cudnn 909)
  if(library MATCHES "^[0-9]+\$")
    set_target_properties(\${name} PROPERTIES SOVERSION \${library})
  else()
    set(name \${library})
    add_library(\${name} SHARED \${name}.c)
  endif()
endforeach()
foreach(program bench_all bench_preflight bench_gemm inventory)
  add_executable(\${program} main.c)
  target_link_libraries(\${program} PRIVATE cudart cublasLt nccl cudnn \${CMAKE_DL_LIBS})
  set_target_properties(\${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY \${PROJECT_BINARY_DIR}/bench INSTALL_RPATH "\\\$ORIGIN/../lib")
  install(TARGETS \${program} RUNTIME DESTINATION bin)
endforeach()
file(MAKE_DIRECTORY \${PROJECT_BINARY_DIR}/bin)
file(CREATE_LINK $build/bin/shakedown \${PROJECT_BINARY_DIR}/bin/shakedown SYMBOLIC)
install(PROGRAMS $build/bin/shakedown DESTINATION bin)
install(DIRECTORY $root/thresholds/ DESTINATION share/shakedown/thresholds FILES_MATCHING PATTERN "*.yaml")
file(WRITE \${PROJECT_BINARY_DIR}/families "preflight\ngemm\n")
install(FILES \${PROJECT_BINARY_DIR}/families DESTINATION share/shakedown)
END
cd "$scratch" || exit 1
run 0 cmake -S source -B made -DCMAKE_BUILD_TYPE=Release
run 0 cmake --build made
export SHAKEDOWN_BUILD=$scratch/made
run 0 "$root/ci/bundle" "$scratch/whole.tar"
run 0 "$root/ci/bundle" --small "$scratch/small.tar"
run 2 "$root/ci/bundle" --tiny "$scratch/small.tar"
expect "a flag that is none is refused" says '^ci/bundle: --tiny is unknown; usage:'
SHAKEDOWN_BUILD=$build
if ! grep -q libcudart <(ldd "$build/bench/bench_all"); then
  run 3 "$root/ci/bundle" --small "$scratch/none.tar"
  expect "a build without CUDA has no small bundle" says 'needs no CUDA library: .*without --small'
fi
unset SHAKEDOWN_BUILD
mkdir whole small && tar xf whole.tar -C whole --strip-components=1 && tar xf small.tar -C small --strip-components=1
expect "the whole bundle has the libraries, the small one has none of them" eval '
  [[ $(ls whole/lib | grep -cE "^lib(cudart|cublas|cublasLt|nccl|cudnn)\.so\.") -eq 5 ]] && ! grep -qE "^lib(cud|cub|nccl)" <(ls small/lib) &&
  [[ $(paste -sd " " small/share/shakedown/cuda_libraries) == "libcublas.so.913 libcublasLt.so.913 libcudart.so.913 libcudnn.so.909 libnccl.so.902" ]]'
expect "  which its README says" grep -q "^  libcudnn.so.909" small/README
expect "only what needs them starts through the script" eval '[[ -L small/bin/bench_all && ! -L small/bin/shakedown ]]'
run 0 whole/bin/bench_all
expect "the whole one brings its own" prints 'cublas:build cudart:build cublasLt:build nccl:build cudnn:build'

# stub SONAME FOLDER FROM: makes a library that reports FROM as its origin
stub() {
  local name=${1#lib}
  mkdir -p "$2" && gcc -shared -fPIC -DFROM="\"$3\"" -Wl,-soname,"$1" -o "$2/$1" "source/${name%%.so*}.c"
}
all=(libcublas.so.913 libcudart.so.913 libcublasLt.so.913 libnccl.so.902 libcudnn.so.909)
export SHAKEDOWN_ROOT=$scratch/node
all_of() { for library in "${all[@]}"; do stub "$library" "$1" "$2"; done; }
# A python3 of the node, with the packages of the test.
mkdir -p node/bin node/packages
printf '#!/bin/sh\nPYTHONPATH=%s exec %s -S "$@"\n' "$scratch/node/packages" "$(command -v python3)" >node/bin/python3
chmod +x node/bin/python3
export PATH=$scratch/node/bin:$PATH

run 3 small/bin/bench_all
expect "a node that has none is refused in one line" eval '[[ $(wc -l <err) -eq 1 ]] && says "^shakedown: $HOSTNAME lacks CUDA libraries: libcublas\.so\.913, libcublasLt\.so\.913, libcudart\.so\.913, libcudnn\.so\.909, libnccl\.so\.902; looked in "'
for place in SHAKEDOWN_CUDA_LIBRARIES= LD_LIBRARY_PATH= CUDA_HOME= "$scratch/node/usr/local/cuda" "the loader's path" VIRTUAL_ENV= CONDA_PREFIX= "packages of $scratch/node/bin/python3"; do
  expect "  that names $place" says "$place"
done
expect "  and how to name others" says 'SHAKEDOWN_CUDA_LIBRARIES=DIR\[:DIR\]$'
run 3 env SHAKEDOWN_RANKS=2 SHAKEDOWN_RESULTS="$scratch/results" small/bin/shakedown accept
expect "an acceptance says so once, tries no family alone, and is no verdict on the machine" eval '
  [[ $(tail -n 1 out) == "VERDICT: INCOMPLETE"* && $(grep -c "^shakedown: $HOSTNAME lacks CUDA libraries" err) -eq 1 ]] && ! grep -q "measured alone" err'

# All locations, in reverse order of the search.
all_of node/packages/nvidia/cu13/lib wheel
run 0 small/bin/bench_all one 'two words'
expect "Python's packages of CUDA 13 are found" prints 'cublas:wheel cudart:wheel cublasLt:wheel nccl:wheel cudnn:wheel words:2 two words'
expect "  and said" says "^CUDA libraries .*$HOSTNAME: .*libnccl.so.902.* $scratch/node/packages/nvidia/cu13/lib$"
rm -r node/packages/nvidia
for library in "${all[@]}"; do folder=${library#lib} && stub "$library" "node/packages/nvidia/${folder%%.so*}/lib" wheels; done
run 0 small/bin/bench_all
expect "and those that have a folder each" prints 'cublas:wheels cudart:wheels cublasLt:wheels nccl:wheels cudnn:wheels'
all_of conda/lib/python3.12/site-packages/nvidia/x/lib conda
run 0 env CONDA_PREFIX="$scratch/conda" small/bin/bench_all
expect "those of CONDA_PREFIX come before" prints 'cublas:conda cudart:conda cublasLt:conda nccl:conda cudnn:conda'
all_of venv/lib/python3.12/site-packages/nvidia/x/lib venv
run 0 env CONDA_PREFIX="$scratch/conda" VIRTUAL_ENV="$scratch/venv" small/bin/bench_all
expect "those of VIRTUAL_ENV before them" prints 'cublas:venv cudart:venv cublasLt:venv nccl:venv cudnn:venv'
if unshare --mount true 2>/dev/null; then
  all_of system system && ldconfig -C "$scratch/cache" -f /dev/null "$scratch/system"
  in_system() { unshare --mount bash -c 'mount --bind "$0" /etc/ld.so.cache && exec "$@"' "$scratch/cache" "$@"; }
  export -f in_system && export scratch
  run 0 bash -c 'in_system env VIRTUAL_ENV="$scratch/venv" small/bin/bench_all'
  expect "libraries of the system before all of Python" prints 'cublas:system cudart:system cublasLt:system nccl:system cudnn:system'
else
  echo "SKIP: only root makes namespaces"
fi
stub libcublasLt.so.912 node/usr/local/cuda-12.9/lib64 old
stub libcudart.so.913 node/usr/local/cuda-13.0/lib64 tree
stub libcublasLt.so.913 node/usr/local/cuda-13.0/targets/lib tree && ln -s targets/lib node/usr/local/cuda-13.0/lib
run 0 small/bin/bench_all
expect "a CUDA tree before them, each library from the first place that has it" prints 'cudart:tree cublasLt:tree nccl:wheels cudnn:wheels'
stub libcudart.so.913 home/lib64 home
run 0 env CUDA_HOME="$scratch/home" small/bin/bench_all
expect "CUDA_HOME before /usr/local" prints 'cudart:home cublasLt:tree nccl:wheels'
stub libcudart.so.913 path path && stub libnccl.so.902 path path
run 0 env CUDA_HOME="$scratch/home" LD_LIBRARY_PATH="$scratch/path" small/bin/bench_all
expect "LD_LIBRARY_PATH before that" prints 'cudart:path cublasLt:tree nccl:path'
stub libcudart.so.913 named named
run 0 env LD_LIBRARY_PATH="$scratch/path" SHAKEDOWN_CUDA_LIBRARIES="$scratch/nowhere:$scratch/named" small/bin/bench_all
expect "and SHAKEDOWN_CUDA_LIBRARIES before all" prints 'cudart:named cublasLt:tree nccl:path'
stub libnccl.so.902 site site
run 0 env SHAKEDOWN_RANKS=2 SHAKEDOWN_NCCL="$scratch/site/libnccl.so.902" small/bin/shakedown launch "$scratch/small/bin/bench_all"
expect "each rank takes them, with the NCCL that the site names" eval '[[ $(grep -c "cudart:tree cublasLt:tree nccl:site cudnn:wheels" out) -eq 2 ]]'
expect "  and one of them says so" eval '[[ $(grep -c "^CUDA libraries on" err) -eq 1 ]]'

# Libraries that do not match.
rm node/usr/local/cuda-13.0/targets/lib/libcublasLt.so.913 && rm -r node/packages/nvidia/cublasLt
run 3 small/bin/bench_all
expect "another major version is refused and named" says "lacks CUDA libraries: libcublasLt\.so\.913 \(of other versions there is $scratch/node/usr/local/cuda-12.9/lib64/libcublasLt\.so\.912\)"
echo broken >named/libcublasLt.so.913
run 3 env SHAKEDOWN_CUDA_LIBRARIES="$scratch/named" small/bin/bench_all
expect "so is a file that is no library" says 'lacks CUDA libraries: .*named/libcublasLt\.so\.913: (file too short|invalid ELF header)'
gcc -shared -fPIC -Wl,-soname,libcublasLt.so.913 -o named/libcublasLt.so.913 -x c /dev/null
echo broken >named/libcublas.so.913
run 3 env SHAKEDOWN_CUDA_LIBRARIES="$scratch/named" small/bin/bench_all
expect "  also one that the program loads" says "libcublas\.so\.913.* \((file too short|invalid ELF header)\)"
rm named/libcublas.so.913
run 3 env SHAKEDOWN_CUDA_LIBRARIES="$scratch/named" small/bin/bench_all
expect "and one that is too old for the program" says 'undefined symbol: of_cublasLt'
finish
