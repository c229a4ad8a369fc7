package crash

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

const powerTopic0 = "/data/" + powerTopic + "-0/00000000000000000000.log"

// TestPowerCutOfTheLastLeaderAfterAKillOfAll kills all three brokers at one moment. Then only the
// machine of the leader loses its power. All replicas were in sync, and the machines of the others
// have every record, so nothing may be lost.
func TestPowerCutOfTheLastLeaderAfterAKillOfAll(t *testing.T) {
	t.Parallel()
	for range number(t, "HEARTWOOD_CRASH_ROUNDS", 1) {
		m := newMachines(t, cutCase{brokers: 3, partitions: 1,
			durability: v1alpha1.DurabilityReplicated, internal: v1alpha1.DurabilityReplicated})
		m.start()
		book := &ackBook{}
		client := m.client(kgo.ProducerLinger(0))
		ctx, cancel := context.WithCancel(t.Context())
		produced := make(chan struct{})
		go func() {
			defer close(produced)
			produceSteadily(ctx, client, book)
		}()
		await.Until(t, "unsynced records of the leader", func() bool {
			return m.unsynced() > 20*powerValue
		})
		book.stop()
		leader := m.killAll()
		cancel()
		client.Close()
		<-produced
		m.start()
		if lost := m.compare(book, m.ends()); lost.count > 0 {
			t.Errorf("%d acknowledged records are lost, although only the last leader, broker %d, "+
				"has lost its power", lost.count, leader)
		}
		m.stop()
	}
}

// unsynced returns how many bytes a power cut of the leader would remove.
func (m *machines) unsynced() int {
	topic := m.store.Image().Topic(powerTopic)
	if topic == nil || topic.Partitions[0].Leader < 0 || len(topic.Partitions[0].ISR) != m.brokers {
		return 0
	}
	disk := m.disks[topic.Partitions[0].Leader]
	written, _ := disk.ReadFile(powerTopic0)
	synced, _ := disk.CrashClone().ReadFile(powerTopic0)
	return len(written) - len(synced)
}

// killAll kills all broker processes, and cuts the power of the leader's machine. It returns the
// leader.
func (m *machines) killAll() int32 {
	m.t.Helper()
	p := m.store.Image().Topic(powerTopic).Partitions[0]
	if len(p.ISR) != m.brokers {
		m.t.Fatalf("ISR %v, want all", p.ISR)
	}
	var after []*vfs.Mem
	for id, disk := range m.disks {
		if int32(id) == p.Leader {
			after = append(after, disk.CrashClone())
		} else {
			after = append(after, disk.KillClone())
		}
	}
	metadata := m.metadata.KillClone()
	m.stop()
	m.disks, m.metadata = after, metadata
	return p.Leader
}
