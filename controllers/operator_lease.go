package controllers

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// OperatorLease is the name of the Lease by which operators agree who works.
const OperatorLease = "heartwood-operator"

// operatorRenewDeadline is controller-runtime's default: how long an operator tries to renew the
// Lease before it ends.
const operatorRenewDeadline = 10 * time.Second

// OperatorLock is the operators' Lease for one that has an identity of its own across restarts:
// that of its pod. An operator that could not renew its Lease ends, as in an outage of the API
// server, and so cannot give it back. Under controller-runtime's identity, which is another at each
// start, it waits then for the end of a Lease that is its own; under this one it goes on (ADR
// 0187).
//
// No two processes that run may have the same identity. A pod's have not: its container is started
// again only once the one before has ended.
func OperatorLock(config *rest.Config, namespace, identity string) (resourcelock.Interface, error) {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace,
		OperatorLease,
		resourcelock.ResourceLockConfig{Identity: identity}, rest.CopyConfig(config),
		operatorRenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make the operators' lease: %w", err)
	}
	return lock, nil
}
