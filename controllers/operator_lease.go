package controllers

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// OperatorLease is the name of the Lease that the active operator holds.
const OperatorLease = "heartwood-operator"

// operatorRenewDeadline is the time for which an operator tries to renew the Lease before it exits.
// It is the default of controller-runtime.
const operatorRenewDeadline = 10 * time.Second

// OperatorLock returns the lock on the operators' Lease for an operator with the given identity.
// The identity must not change when the operator restarts. If an operator cannot renew its Lease,
// for example in an outage of the API server, it exits without releasing the Lease.
// controller-runtime would generate another identity at each start, so the restarted operator would
// have to wait until its own earlier Lease expires. With a constant identity, such as the pod's
// identity, it continues at once (ADR 0187).
//
// No two running processes may have the same identity. The identity of a pod satisfies this,
// because Kubernetes starts a container again only after its previous process has exited.
func OperatorLock(config *rest.Config, namespace, identity string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace,
		OperatorLease,
		resourcelock.ResourceLockConfig{Identity: identity}, rest.CopyConfig(config),
		operatorRenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("create the lock on the operators' Lease: %w", err)
	}
	return lock, nil
}
