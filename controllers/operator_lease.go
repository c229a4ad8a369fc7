package controllers

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// OperatorLease is the name of the Lease by which operators elect the one that is active.
const OperatorLease = "heartwood-operator"

// operatorRenewDeadline is how long an operator tries to renew the Lease before it exits:
// controller-runtime's default.
const operatorRenewDeadline = 10 * time.Second

// OperatorLock returns the operators' Lease for an operator whose identity, that of its pod, is
// kept across restarts. An operator that cannot renew its Lease exits, as in an outage of the API
// server, and cannot release the Lease. With controller-runtime's identity, which is another one at
// each start, the restarted operator would wait until its own Lease expires. With the pod's
// identity it continues at once (ADR 0187).
//
// No two running processes may have the same identity. A pod satisfies this: its container is
// started again only after the previous one has exited.
func OperatorLock(config *rest.Config, namespace, identity string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace,
		OperatorLease,
		resourcelock.ResourceLockConfig{Identity: identity}, rest.CopyConfig(config),
		operatorRenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("create the lock on the operators' lease: %w", err)
	}
	return lock, nil
}
