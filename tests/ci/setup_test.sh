#!/usr/bin/env bash
# ci/setup with simulated package managers.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
mkdir bin
fakes=(env PATH="$scratch/bin:$PATH")
printf '#!/bin/sh\nprintf installed\n' >bin/dpkg-query
printf '#!/bin/sh\necho apt-get "$@" >>"%s/apt.log"\n' "$scratch" >bin/apt-get
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
chmod +x bin/*
run 0 "${fakes[@]}" "$root/ci/setup"
expect "where nothing is missing nothing is installed" eval 'says "nothing is missing" && [[ ! -e apt.log ]]'
printf '#!/bin/sh\ncase "$*" in *yaml-cpp*) exit 1;; *) printf installed;; esac\n' >bin/dpkg-query
run 0 "${fakes[@]}" "$root/ci/setup"
expect "what is missing is installed, by name, and nothing else" eval 'says "^ci/setup: installing libyaml-cpp-dev$" && grep -q "install.* libyaml-cpp-dev$" apt.log'
printf '#!/bin/sh\ncase "$*" in *slurm-wlm*) exit 1;; *) printf installed;; esac\n' >bin/dpkg-query
rm apt.log
run 0 "${fakes[@]}" "$root/ci/setup"
expect "what only tests need is not installed for others" eval '[[ ! -e apt.log ]]'
run 0 "${fakes[@]}" "$root/ci/setup" --tests
expect "  but where it is wanted" grep -q 'install.* slurm-wlm$' apt.log
run 2 "${fakes[@]}" "$root/ci/setup" --nosuch

# A machine without the network.
printf '#!/bin/sh\nexit 100\n' >bin/apt-get
printf '#!/bin/sh\ncase "$*" in *liburing*) exit 1;; *) printf installed;; esac\n' >bin/dpkg-query
run 0 "${fakes[@]}" "$root/ci/setup"
expect "an optional package that cannot be installed is named, and no error" says "^ci.setup: missing: liburing-dev;"
printf '#!/bin/sh\ncase "$*" in *liburing* | *yaml-cpp*) exit 1;; *) printf installed;; esac\n' >bin/dpkg-query
run 3 "${fakes[@]}" "$root/ci/setup"
expect "a required one is an error" says "missing: .*libyaml-cpp-dev.*"

# An optional package that the distribution lacks.
printf '#!/bin/sh\ncase "$*" in *liburing*) exit 100;; *) echo apt-get "$@" >>"%s/apt.log";; esac\n' "$scratch" >bin/apt-get
rm -f apt.log
run 0 "${fakes[@]}" "$root/ci/setup"
expect "an optional package that does not exist is no obstacle for others" grep -q 'install.* libyaml-cpp-dev$' apt.log
expect "  and is named alone" says "^ci.setup: missing: liburing-dev;"
finish
