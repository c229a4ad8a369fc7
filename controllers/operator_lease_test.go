package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
)

// operator is one that wants to work, and does nothing else.
type operator struct {
	works chan struct{} // closed once it does
	end   func()        // it ends without giving the Lease back
}

// startOperator starts one whose Lease lasts so long.
func startOperator(namespace, identity string, lasts time.Duration) *operator {
	GinkgoHelper()
	lock, err := OperatorLock(config, namespace, identity)
	Expect(err).NotTo(HaveOccurred())
	o := &operator{works: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: lasts, RenewDeadline: lasts / 2,
		RetryPeriod: 100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(o.works) },
			OnStoppedLeading: func() {},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer close(ended)
		elector.Run(ctx)
	}()
	o.end = func() {
		cancel()
		<-ended
	}
	DeferCleanup(o.end)
	return o
}

var _ = Describe("the Lease of operators", func() {
	lease := func(w *world) *coordinationv1.Lease {
		GinkgoHelper()
		found := &coordinationv1.Lease{}
		Expect(api.Get(context.Background(),
			types.NamespacedName{Namespace: w.namespace, Name: OperatorLease}, found)).To(Succeed())
		return found
	}

	// The Leases last an hour: whoever works did not wait for the end of one.
	It("is taken up at once by an operator that starts again, and not by another", func() {
		w := newWorld()
		first := startOperator(w.namespace, "pod-a", time.Hour)
		Eventually(first.works).Should(BeClosed())
		first.end()
		held := lease(w)
		Expect(*held.Spec.HolderIdentity).To(Equal("pod-a"))

		other := startOperator(w.namespace, "pod-b", time.Hour)
		again := startOperator(w.namespace, "pod-a", time.Hour)
		Eventually(again.works).Should(BeClosed())
		Expect(lease(w).Spec.LeaseTransitions).To(Equal(held.Spec.LeaseTransitions),
			"it is the same Lease")
		Consistently(other.works, time.Second).ShouldNot(BeClosed())

		By("another takes it once it is over")
		again.end()
		last := startOperator(w.namespace, "pod-a", 2*time.Second)
		Eventually(last.works).Should(BeClosed())
		last.end()
		Eventually(other.works).Should(BeClosed())
		Expect(*lease(w).Spec.HolderIdentity).To(Equal("pod-b"))
	})
})
