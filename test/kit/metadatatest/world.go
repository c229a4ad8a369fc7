package metadatatest

import (
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
)

// Brokers is the number of brokers of a World's cluster. Their ids begin at 0.
const Brokers = 3

// Store is what one broker uses.
type Store interface {
	metadata.Store
	metadata.Admin
	metadata.Alterer
	metadata.Mover
	metadata.UserAdmin
	metadata.ShutdownAnnouncer
	metadata.RemovalRecorder
}

// World is a new cluster of Brokers brokers, none of which runs, without topics. Kafka's admin API
// may change it.
type World interface {
	// Open returns the store of a broker that does not run. A broker opens it again before the next
	// Run.
	Open(t testing.TB, broker int32) Store
	// Kill ends Run of a broker without a graceful stop. Run may return an error.
	Kill(broker int32)
	// Decide makes the decisions that are due: assignments, elections and reassignments. It does
	// nothing if the store makes them itself.
	Decide(t testing.TB)
	// Reopen opens the stored state again while no broker runs.
	Reopen(t testing.TB)
}

// Run tests the stores of the worlds that newWorld returns. Each subtest has a new one.
func Run(t *testing.T, newWorld func(testing.TB) World) {
	for _, test := range []struct {
		name string
		run  func(*cluster)
	}{
		{"images", testImages},
		{"registration", testRegistration},
		{"producer ids", testProducerIDs},
		{"ISR", testISR},
		{"ISR of many partitions", testISRBatch},
		{"serving", testServing},
		{"shutdown", testShutdown},
		{"shutdown of all", testShutdownOfAll},
		{"topics", testTopics},
		{"alter", testAlter},
		{"moves", testMoves},
		{"users", testUsers},
		{"removal", testRemoval},
		{"reopen", testReopen},
		{"ended context", testEndedContext},
		{"failed write", testFailedWrite},
		{"concurrent callers", testConcurrentCallers},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{TB: t, world: newWorld(t), epochs: map[int32]int64{}}
			defer c.stop()
			test.run(c)
		})
	}
}
