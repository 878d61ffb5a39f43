#!/usr/bin/env bash
# An rsh agent for mpirun that simulates a host in namespaces, with its own host name, shared memory and mounts.
#   mpirun --host nodea:2,nodeb:2 --mca plm_rsh_agent tests/faults/fakehost.sh -np 4 PROGRAM
# Needs root.
while [[ $1 == -* ]]; do shift; done
host=$1
shift
exec unshare --uts --ipc --mount bash -c "hostname $host && mount -t tmpfs tmpfs /dev/shm && $*"
