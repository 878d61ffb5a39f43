#!/usr/bin/env bash
# Runs a command as the MPI operator (v0.8.2) runs the launcher of ci/k8s/mpijob.yaml. There are two workers in namespaces, each
# with the sshd of the image, and the environment has only the variables of the operator.
#   tests/launch/operator.sh DIR COMMAND...
# DIR keeps logs (tests/rack.bash). The workers run on the nodes gpu-1 and gpu-2, with two slots each.
# Needs root, sshd and mpirun.
# shellcheck source-path=SCRIPTDIR source=../rack.bash disable=SC2154
source "$(dirname "$(dirname "$(readlink -f "$0")")")/rack.bash"
shift
ci=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")/ci
worker() { echo "shakedown-worker-$(($1 - 1)).shakedown.default.svc"; }
rack_of shakedown-launcher "$(worker 1)" "$(worker 2)"
mkdir -p /run/sshd
mount -t tmpfs tmpfs /etc/ssh/ssh_config.d

# The settings of the image, in DIR instead of the user's home, with keys as the operator makes them.
settings() { sed -n "s|.*printf '\([^']*\)' >$1.*|\1|p" "$ci/container/Dockerfile"; }
# shellcheck disable=SC2059
printf "$(settings /etc/ssh/ssh_config.d/mpi.conf)  IdentityFile $rack/id_rsa\n" >/etc/ssh/ssh_config.d/mpi.conf
# shellcheck disable=SC2059
printf "$(settings /home/mpiuser/.sshd_config)\n" | sed "s|/home/mpiuser/.ssh|$rack|;s|/home/mpiuser|/run|" >"$rack/.sshd_config"
ssh-keygen -q -t ecdsa -N '' -f "$rack/id_rsa"
cp "$rack/id_rsa.pub" "$rack/authorized_keys"
sshd=$(sed -n 's/.*command: \[\(.*sshd.*\)\]/\1/p' "$ci/k8s/mpijob.yaml" | tr -d ,)
sshd=${sshd//\/home\/mpiuser/$rack}" -o AuthorizedKeysFile=$rack/authorized_keys"
for i in 1 2; do
  run_host $i "shakedown-worker-$((i - 1))" "mount -t tmpfs tmpfs /run && mkdir -p /run/sshd && exec ${sshd//\$(SHAKEDOWN_NODE)/gpu-$i}"
  echo "$(worker $i) slots=2" >>"$rack/hostfile"
done
# WaitForWorkersReady
for i in 1 2; do until (: <"/dev/tcp/10.78.0.1$i/2222") 2>/dev/null; do sleep 0.05; done; done
exec env -i HOME="$HOME" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin K_MPI_JOB_ROLE=launcher \
  OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile="$rack/hostfile" OMPI_MCA_orte_set_default_slots=2 \
  OMPI_MCA_plm_rsh_args="-o ConnectionAttempts=10" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  NVIDIA_VISIBLE_DEVICES= NVIDIA_DRIVER_CAPABILITIES= "$@"
