package metadatatest

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// Brokers is the number of brokers in a World's cluster. Their ids begin at 0.
const Brokers = 3

// Store contains the interfaces of a store that one broker uses.
type Store interface {
	metadata.Store
	metadata.Admin
	metadata.Alterer
	metadata.Mover
	metadata.UserAdmin
	metadata.ShutdownAnnouncer
	metadata.RemovalRecorder
}

// World is a new cluster of Brokers brokers that do not run yet. It has no topics. Kafka's admin
// API is allowed to change it.
type World interface {
	// Open returns the store of a broker that does not run. Open must be called again before the
	// broker's next Run.
	Open(t testing.TB, broker int32) Store
	// Kill ends a broker's Run without a graceful stop. Run can then return an error.
	Kill(broker int32)
	// Decide makes the decisions that are due: assignments, elections and reassignments. It does
	// nothing if the store itself makes them.
	Decide(t testing.TB)
	// Reopen opens the stored state again while no broker runs.
	Reopen(t testing.TB)
	// Apply replaces the Topics that have a manifest. It deletes other Topics that had a manifest.
	Apply(t testing.TB, topics ...*v1alpha1.Topic)
	// GiveUp begins the removal of the retained records of a deleted topic.
	GiveUp(t testing.TB, partition metadata.RetainedPartition)
	// Authenticate makes clients authenticate with passwords, and adds LogUsers.
	Authenticate(t testing.TB, users ...*v1alpha1.LogUser)
	// Block makes the writes of all brokers wait, except for registrations, until the returned
	// function end is called. waiting reports whether any write waits.
	Block() (waiting func() bool, end func())
}

// Leases is a World whose brokers register in Leases.
type Leases interface {
	// DeleteLease deletes the Lease of a broker that does not run.
	DeleteLease(t testing.TB, broker int32)
	// Isolate marks a broker that is cut off from the other brokers, like the operator.
	Isolate(t testing.TB, broker int32)
	// Unreachable returns a broker's last report (metadata.ReachabilityReporter).
	Unreachable(t testing.TB, broker int32) string
}

// Elects is a World whose store holds an election with each change.
type Elects interface {
	// LeaveAll announces the controlled shutdown of all brokers in one change.
	LeaveAll() error
}

// tests are the subtests. If the list of kinds of a test is nil, the test applies to all stores.
var tests = []struct {
	name  string
	run   func(*cluster)
	kinds []Kind
}{
	{"abilities", testAbilities, nil},
	{"images", testImages, nil},
	{"registration", testRegistration, nil},
	{"registration waits", testWaits, []Kind{Kube}},
	{"producer ids", testProducerIDs, nil},
	{"deleted Lease", testDeletedLease, []Kind{Kube}},
	{"ISR", testISR, nil},
	{"ISR of many partitions", testISRBatch, nil},
	{"ISR of unknown outcome", testUnknownISR, nil},
	{"isolated broker", testIsolated, []Kind{Kube}},
	{"unreachable brokers", testUnreachable, []Kind{Kube}},
	{"full volume", testVolume, nil},
	{"serving", testServing, nil},
	{"stopped logs", testStoppedLogs, nil},
	{"losses", testLosses, nil},
	{"loss of the last log", testLastLoss, nil},
	{"damage on two replicas", testDamage, nil},
	// In the other stores, the loss and the registration are one write.
	{"unrecorded loss", testUnrecordedLoss, []Kind{Kube}},
	{"shutdown", testShutdown, nil},
	{"shutdown of all", testShutdownOfAll, nil},
	{"topics", testTopics, nil},
	{"retention", testRetention, nil},
	{"alter", testAlter, nil},
	{"moves", testMoves, nil},
	{"users", testUsers, nil},
	{"quotas", testQuotas, nil},
	{"passwords", testScram, nil},
	{"removal", testRemoval, nil},
	{"removal of retained records", testRemovalOfRetained, nil},
	{"reopen", testReopen, nil},
	{"ended context", testEndedContext, nil},
	{"failed write", testFailedWrite, nil},
	{"concurrent callers", testConcurrentCallers, nil},
}

// Run tests the stores of the worlds that newWorld returns. Each subtest has its own world.
func Run(t *testing.T, kind Kind, newWorld func(testing.TB) World) {
	for _, test := range tests {
		if test.kinds != nil && !slices.Contains(test.kinds, kind) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{TB: t, kind: kind, world: newWorld(t), epochs: map[int32]int64{}}
			defer c.stop()
			test.run(c)
		})
	}
}
