#!/usr/bin/env bash
# Copyright The metacidr Authors.
# SPDX-License-Identifier: Apache-2.0

# Starts a real control plane on loopback, runs the quickstart on it and stops it, whatever happens.
# "make demo" builds the two programs in bin/ that this needs. The exit code is the quickstart's.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p .cache/tmp
TMPDIR=$(mktemp -d "$PWD/.cache/tmp/demo.XXXXXX")
export TMPDIR # for the control plane's folder too
pid=
finish() {
	if [[ -n $pid ]] && kill -TERM "$pid" 2>/dev/null; then
		echo "--- stopping the control plane"
		wait "$pid" || true
	fi
	rm -rf "$TMPDIR"
}
trap finish EXIT
trap 'exit 130' INT TERM

echo "--- building etcd and kube-apiserver: many minutes the first time, then nothing"
bin/controlplane --build-only

echo "--- starting them on 127.0.0.1"
set -m # a process group of its own: Ctrl-C must reach the quickstart first
bin/controlplane --service-cluster-ip-range=10.111.0.0/24 --kubeconfig="$TMPDIR/kubeconfig" >"$TMPDIR/ready" &
pid=$!
set +m
until [[ -s $TMPDIR/ready ]]; do # it says something when it is ready, or else it ends
	kill -0 "$pid" 2>/dev/null || exit 1
	sleep 0.2
done

echo "--- bin/quickstart: ten addresses out of three ServiceCIDRs"
bin/quickstart --kubeconfig="$TMPDIR/kubeconfig"
