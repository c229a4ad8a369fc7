package broker

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// newHalfMigrated returns a cluster in the middle of a rolling update: broker 0 has no
// certificates, and broker 1 has certificates. Both have a listener without TLS. Topic orders has
// two partitions with two replicas.
func newHalfMigrated(t *testing.T) (*secureCluster, *kgo.Client) {
	c := newStoppedCluster(t, 2, "ANONYMOUS")
	plain := Listener{Name: metadata.DefaultListener, Listen: "127.0.0.1:0"}
	c.brokers = Brokers{
		c.run(&Options{NodeID: 0, DataDir: t.TempDir(), Listeners: []Listener{plain}}),
		c.run(&Options{NodeID: 1, DataDir: t.TempDir(), Listeners: []Listener{plain},
			PeerListen: "127.0.0.1:0", PeerHost: "127.0.0.1", Namespace: "ns", Cluster: "demo",
			Certificates: c.certificates(1)}),
	}
	c.await()
	client := c.connect(kgo.SeedBrokers(c.brokers[0].Addr()), kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	topic, err := kadm.NewClient(client).CreateTopic(t.Context(), 2, 2, nil, "orders")
	if err = errors.Join(err, topic.Err); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, c.brokers, "orders")
	return c, client
}

// leads returns the partition of topic orders that the broker leads.
func (c *secureCluster) leads(broker int32) int32 {
	c.t.Helper()
	for i, p := range c.store.Image().Topic("orders").Partitions {
		if p.Leader == broker {
			return int32(i)
		}
	}
	c.t.Fatalf("broker %d leads no partition", broker)
	return -1
}

// TestBrokersReplicateDuringTheMigration checks that brokers with and without certificates
// replicate from each other, as in a rolling update to TLS or back. Both brokers must have all
// acknowledged records.
func TestBrokersReplicateDuringTheMigration(t *testing.T) {
	c, client := newHalfMigrated(t)
	for leader := range int32(2) {
		partition := c.leads(leader)
		for range 2 {
			err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: partition,
				Value: []byte("x")}).FirstErr()
			if err != nil {
				t.Fatalf("leader %d: %v", leader, err)
			}
		}
		await.Until(t, "the follower is in sync", func() bool {
			return len(c.store.Image().Topic("orders").Partitions[partition].ISR) == 2
		})
	}
}

// TestClientsAreNoFollowersDuringTheMigration checks that a broker with certificates accepts
// followers without a certificate only on the port for brokers.
func TestClientsAreNoFollowersDuringTheMigration(t *testing.T) {
	c, client := newHalfMigrated(t)
	c.leads(1)
	onPeers := c.connect(kgo.SeedBrokers(c.brokers[1].peers.socket.Addr().String()))
	denied := kerr.TopicAuthorizationFailed.Code
	for _, version := range []int16{4, 11, 12} {
		if code := c.forge(client.Broker(1), version, 0); code != denied {
			t.Errorf("version %d on the clients' listener: error %d", version, code)
		}
		if code := c.forge(onPeers.SeedBrokers()[0], version, 0); code == denied {
			t.Errorf("version %d on the port for peers: error %d", version, code)
		}
	}
}
