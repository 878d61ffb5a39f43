#!/usr/bin/env bash
# The tarball of ci/bundle on a node that only has libc, bash and MPI, and the package of cpack. Both contain what `cmake
# --install` installs, so making them from this build is enough, whatever it was built for.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
limit=200
needs readelf python3 chroot mpirun dpkg-deb dpkg-shlibdeps cpack

SHAKEDOWN_BUILD=$build run 0 "$root/ci/bundle" "$scratch/shakedown.tar"
expect "the script says which glibc a node must have" says 'libraries, glibc 2\.[0-9]+ or newer'
mkdir -p node/opt && tar xf shakedown.tar -C node/opt && mv node/opt/shakedown-* node/opt/shakedown
bundle=node/opt/shakedown
expect "  and so does the bundle" grep -qE 'Needs glibc 2\.[0-9]+ or newer' "$bundle/README"
expect "what a node may lack is inside" eval '[[ -e $(ls $bundle/lib/libopenblas*) && -e $(ls $bundle/lib/libstdc++*) && -e $(ls $bundle/lib/libyaml-cpp*) && -e $(ls $bundle/lib/libgfortran*) ]]'
expect "  each with its licence" test -s $bundle/share/licenses/libstdc++6 -o -s $bundle/share/licenses/gcc-12-base
listed() { python3 -c 'import json, sys; print(*sorted(p.get("packageFileName", "") for p in json.load(open(sys.argv[1]))["packages"]), sep="\n")' "$1"; }
expect "the list of software has each library inside" eval '[[ $(listed $bundle/share/shakedown/sbom.spdx.json | grep ^lib/) == "$(cd $bundle && LC_ALL=C ls -d lib/*.so* | grep -v sniff)" ]]'
expect "MPI, libc and the driver are the node's" eval '! grep -qE "^(libmpi|libopen-|libhwloc|libpmix|libevent|libc\.so|libm\.so|libcuda\.so|libnvidia)" <(ls $bundle/lib)'
expect "libraries of libraries are found inside too" eval 'grep -q "(RPATH).*ORIGIN/../lib" <(readelf -d $bundle/bin/bench_all) && ! grep -q "(RUNPATH)" <(readelf -d $bundle/bin/bench_all)'

# A simulated node with bash, mpirun and their libraries only.
if unshare --mount true 2>/dev/null; then
  mpi=$(dirname "$(readlink -f "$(ldd $bundle/bin/bench_all | awk '$1 ~ /^libmpi\.so/ { print $3 }')")")
  install_into_node() { for file; do mkdir -p "node/$(dirname "$file")" && cp -L "$file" "node/$file"; done; }
  install_into_node "$(command -v bash)" "$(command -v mpirun)" "$(command -v orted || command -v prted)"
  for folder in "$mpi"/openmpi* "$mpi"/pmix* /usr/share/openmpi /usr/share/pmix* /etc/openmpi; do
    [[ -d $folder ]] || continue
    while read -r file; do
      # Transports for fabrics have their own libraries, such as libstdc++. TCP and shared memory need none.
      case ${file##*/} in mca_*ofi* | mca_*ucx* | mca_*psm* | mca_*usnic* | mca_*portals* | mca_*fabric*) continue ;; esac
      install_into_node "$file"
    done < <(find "$folder" -type f \( -name '*.so*' -o -name '*.txt' -o -name '*.conf' -o -name '*.ini' \))
  done
  mapfile -t libraries < <(find node/usr -type f \( -name '*.so*' -o -perm -u+x \) -print0 | xargs -0 ldd 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\/.*ld-linux/ { print $1 }' | sort -u; ldd $bundle/bin/bench_all | awk '$1 ~ /^lib(mpi|dl|rt|pthread|resolv)\./ { print $3 }')
  install_into_node "${libraries[@]}"
  expect "the node has none of the libraries that the bundle brings" eval '[[ -z $(find node/usr node/lib* -name "libstdc++*" -o -name "libopenblas*" -o -name "libgfortran*" 2>/dev/null) ]]'
  mkdir -p node/{proc,sys,dev,tmp}
  chmod 755 . node
  on_node() {
    unshare --mount bash -c 'mount --bind node node && mount --rbind /proc node/proc && mount --rbind /sys node/sys && mount --rbind /dev node/dev &&
      mount -o remount,bind,ro node && mount -t tmpfs -o mode=1777 tmpfs node/tmp && cd node/tmp &&
      exec env -i $(command -v chroot) --userspec=65534:65534 .. $(command -v bash) -c "cd /tmp && $1"' - "$1"
  }
  export -f on_node
  run 0 bash -c 'on_node "exec /opt/shakedown/bin/shakedown accept --families=preflight"'
  expect "there the bundle measures and judges, for another user, read-only, from an empty environment" prints '^VERDICT: HOST-ONLY .*2 ranks'
  run not0 bash -c 'on_node ": >/opt/x"'
else
  echo "SKIP: only root makes namespaces"
fi

run 0 cpack --config "$build/CPackConfig.cmake" -D CPACK_DEBIAN_COMPRESSION_TYPE=none -G DEB -B "$scratch/packed"
deb=$(ls packed/*.deb)
run 0 dpkg-deb -I "$deb"
expect "the package depends on the packages of its libraries" prints '^ Depends: .*libbenchmark.*libopenblas.*libopenmpi.*libyaml-cpp.*openmpi-bin|^ Depends: .*openmpi-bin.*libyaml-cpp'
run 0 dpkg-deb -x "$deb" unpacked
expect "  and has a list of software" grep -q '"name": "libyaml-cpp' unpacked/opt/shakedown/share/shakedown/sbom.spdx.json
run 0 env -i unpacked/opt/shakedown/bin/shakedown report --results="$root/tests/data/h200-sxm-4ranks-full/1"
expect "  and what it holds runs" prints '^VERDICT: PASS .*profile h200-sxm'
finish
