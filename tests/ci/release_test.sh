#!/usr/bin/env bash
# The list of software of a package (ci/sbom), and the commands of docs/release.md that sign and check packages, on made-up files.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs python3 ldd dpkg-query

# A tree of two programs: one library is packed, the others are the node's.
mkdir -p tree/bin tree/lib
shell=$(command -v bash)
library=$(ldd "$shell" | awk '/libtinfo/ { print $3 }')
cp "$shell" tree/bin/program
echo '#!/bin/sh' >tree/bin/script
cp -L "$library" tree/lib/
listed() { SOURCE_DATE_EPOCH=0 timeout 60 "$root/ci/sbom" "$@" >sbom.json 2>err; }
# Prints PATTERN's field of the packages whose id matches: field ID NAME
field() { python3 -c 'import json, re, sys
for package in json.load(open("sbom.json"))["packages"]:
    if re.fullmatch(sys.argv[1], package["SPDXID"]): print(package.get(sys.argv[2], ""))' "$1" "$2"; }
echo "${library##*/} $library" | listed tree 1.2.3
expect "it lists a made-up tree" test $? -eq 0
expect "  with the version of the package" test "$(field SPDXRef-shakedown versionInfo)" = 1.2.3
owner=$(dpkg-query -S "$(readlink -f "$library")" 2>/dev/null || dpkg-query -S "$library")
owner=${owner%%:*}
expect "  a packed library by its package" test "$(field 'SPDXRef-library-libtinfo.*' name)" = "$owner"
expect "    its version" test "$(field 'SPDXRef-library-libtinfo.*' versionInfo)" = "$(dpkg-query -W -f '${Version}' "$owner")"
expect "    and its checksum" grep -q "$(sha256sum <"tree/lib/${library##*/}" | cut -d' ' -f1)" sbom.json
expect "  libraries of the node" test "$(field 'SPDXRef-library-libc.so.6' name)" = libc6
expect "    without a file in the package" test -z "$(field 'SPDXRef-library-libc.so.6' packageFileName)"
expect "  and the time that was asked for" grep -q '"created": "1970-01-01T00:00:00Z"' sbom.json
mkdir diverts
printf '#!/bin/sh\n%s "$@"\n[ "$1" != -S ] || for file; do echo "diversion by libc6 from: $file"; done\n' "$(command -v dpkg-query)" >diverts/dpkg-query
chmod +x diverts/dpkg-query
echo "${library##*/} $library" | PATH=$PWD/diverts:$PATH listed tree 1.2.3
expect "  and diversions name no package" test "$(field 'SPDXRef-library-libtinfo.*' name)" = "$owner"
# The rules of SPDX 2.3 for these fields (https://spdx.github.io/spdx-spec/v2.3/).
expect "it is a document of SPDX 2.3" python3 - <<'END'
import json, re
document = json.load(open("sbom.json"))
assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
assert re.fullmatch(r"https://[^#]+", document["documentNamespace"]) and document["creationInfo"]["creators"]
ids = [document["SPDXID"], *(package["SPDXID"] for package in document["packages"])]
assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", id) for id in ids), ids
for package in document["packages"]:
    assert package["name"] and package["downloadLocation"] and package["licenseDeclared"] and package["filesAnalyzed"] is False
related = {relation[end] for relation in document["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
assert related == set(ids), related ^ set(ids)
own = {text["licenseId"] for text in document.get("hasExtractedLicensingInfos", [])}
used = {licence for package in document["packages"] for licence in re.findall(r"LicenseRef-[\w.-]+", package["licenseDeclared"])}
assert own == used, (own, used)
END
printf 'libcublas.so.99 /nowhere/libcublas.so.99.1.2\n' | listed tree 1.2.3
expect "a library without a package has the version of its file" test "$(field 'SPDXRef-library-libcublas.*' versionInfo)" = 99.1.2
expect "  and its licence has a source" grep -q 'See https://docs.nvidia.com/cuda/eula/' sbom.json
listed empty 1.2.3 </dev/null
expect "a tree without programs is refused" test $? -eq 2 -a ! -s sbom.json
expect "  with the reason" grep -q '^ci/sbom: empty: ' err
listed tree 1.2.3 tree </dev/null
expect "a folder without a build is refused" grep -q '^ci/sbom: tree: ' err
echo libtinfo.so.6 | listed tree 1.2.3
expect "input without a path is refused" grep -q 'standard input: "libtinfo.so.6" is not LIBRARY PATH' err

# The commands of docs/release.md.
if has ssh-keygen; then
  commands=$(awk '/^```sh/{inside=1; next} /^```/{inside=0} inside && /ssh-keygen/' "$root/docs/release.md")
  sign=$(grep -F -- '-Y sign' <<<"$commands")
  check=$(grep -F -- '-Y verify' <<<"$commands")
  mkdir release && cd release || exit 1
  ssh-keygen -q -t ed25519 -N '' -f mykey && echo "me $(<mykey.pub)" >signers
  ssh-keygen -q -t ed25519 -N '' -f other
  echo bundle >shakedown-1.2.3-x86_64.tar.gz
  echo package >shakedown_1.2.3_amd64.deb
  run 0 bash -c "$sign"
  run 0 bash -c "$check"
  expect "signed packages are found good" prints '^shakedown_1.2.3_amd64.deb: OK'
  mv shakedown_1.2.3_amd64.deb kept && run 0 bash -c "$check"
  expect "  also if only one was fetched" prints '^shakedown-1.2.3-x86_64.tar.gz: OK'
  mv shakedown-1.2.3-x86_64.tar.gz kept.tar.gz && run not0 bash -c "$check"
  echo changed >shakedown-1.2.3-x86_64.tar.gz
  run not0 bash -c "$check"
  expect "a changed package is found" prints '^shakedown-1.2.3-x86_64.tar.gz: FAILED'
  cp SHA256SUMS sums && sha256sum shakedown-* >SHA256SUMS
  run not0 bash -c "$check"
  expect "changed checksums are found" eval '! prints ": OK"'
  rm SHA256SUMS.sig && run 0 bash -c "${sign//mykey/other}"
  run not0 bash -c "$check"
  expect "the signature of another key is refused" eval '! prints ": OK"'
  rm SHA256SUMS.sig && run 0 bash -c "${sign//-n file/-n shakedown}"
  run not0 bash -c "$check"
  expect "a signature of a certificate is none of a package" eval '! prints ": OK"'
fi
finish
