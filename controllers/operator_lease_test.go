package controllers

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"

	. "heartwood.dev/heartwood/test/kit/specs"
)

// operator is a leader election client that plays an operator without controllers.
type operator struct {
	active chan struct{} // closed when the operator is elected
	exit   func()        // stops the operator without releasing the Lease
}

// startOperator starts an operator whose Lease has the given duration.
func startOperator(t *testing.T, namespace, identity string, duration time.Duration) *operator {
	lock, err := OperatorLock(config, namespace, identity)
	Expect(err).NotTo(HaveOccurred())
	o := &operator{active: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: duration, RenewDeadline: duration / 2,
		RetryPeriod: 100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(o.active) },
			OnStoppedLeading: func() {},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	o.exit = func() {
		cancel()
		<-ended
	}
	Cleanup(t, o.exit)
	return o
}

var _ = Describe("The Lease of operators", func() {
	lease := func(f *fixture) *coordinationv1.Lease {
		found := &coordinationv1.Lease{}
		Expect(api.Get(context.Background(),
			types.NamespacedName{Namespace: f.namespace, Name: OperatorLease}, found)).To(Succeed())
		return found
	}

	// The Lease has a duration of an hour, so an operator that is elected during the test has not
	// waited for the Lease to expire.
	It("is acquired at once by a restarted operator, and by no other one", func(t *testing.T) {
		f := newFixture(t)
		first := startOperator(t, f.namespace, "pod-a", time.Hour)
		Eventually(first.active).Should(BeClosed())
		first.exit()
		held := lease(f)
		Expect(*held.Spec.HolderIdentity).To(Equal("pod-a"))

		other := startOperator(t, f.namespace, "pod-b", time.Hour)
		again := startOperator(t, f.namespace, "pod-a", time.Hour)
		Eventually(again.active).Should(BeClosed())
		Expect(lease(f).Spec.LeaseTransitions).To(Equal(held.Spec.LeaseTransitions),
			"the holder has not changed")
		Consistently(other.active, time.Second).ShouldNot(BeClosed())

		t.Log("another operator acquires it after it has expired")
		again.exit()
		last := startOperator(t, f.namespace, "pod-a", 2*time.Second)
		Eventually(last.active).Should(BeClosed())
		last.exit()
		Eventually(other.active).Should(BeClosed())
		Expect(*lease(f).Spec.HolderIdentity).To(Equal("pod-b"))
	})
})
