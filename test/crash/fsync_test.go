package crash

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// fsyncTopic describes a topic whose records are acknowledged only after a sync.
const fsyncTopic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: crash
  partitions: 1
  cleanupPolicy: Compact
  durability: Fsync
  segment: {size: 128Ki}
`

// TestFsyncAcknowledgementIsSyncedAndSurvivesKill checks a topic with durability Fsync: each
// acknowledgement must wait for a sync, and acknowledged records must survive kill -9. A kill does
// not discard the page cache, so survival does not prove that a record was synced. Therefore the
// test sends single records and checks that each record increases the metric of syncs by one.
func TestFsyncAcknowledgementIsSyncedAndSurvivesKill(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	r := &run{
		Setup: process.NewSetup(t, 1, cluster, fsyncTopic), t: t, book: ledger.New(),
		chance: rand.New(rand.NewPCG(seed, 0)),
		load:   traffic.Updates{Topic: "tickets", Keys: 500, DeleteEvery: 7, Seed: seed},
	}
	bootstrap := r.start()
	var err error
	if r.client, err = kgo.NewClient(kgo.SeedBrokers(bootstrap...),
		kgo.MaxBufferedRecords(2000)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)

	syncs := func() float64 {
		count, _ := r.Metrics(t).Value("log_syncs_total", "tickets", 0)
		return count
	}
	const alone = 20
	before := syncs()
	for range alone {
		record := &kgo.Record{Topic: "tickets", Key: []byte("alone"), Value: []byte("v")}
		r.book.Sent(record)
		if err := r.client.ProduceSync(process.WithDeadline(t), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		r.book.Acknowledged(record)
	}
	if more := syncs() - before; more < alone {
		t.Errorf("%v syncs for %d records, each sent after the acknowledgement of the previous one", more,
			alone)
	}

	for round := range number(t, "HEARTWOOD_CRASH_ROUNDS", 2) {
		r.load.Rounds = int(round) * 1000
		ctx, cancel := context.WithCancel(t.Context())
		streamed := make(chan int64, 1)
		go func() { streamed <- traffic.Stream(ctx, r.client, r.book, r.load) }()
		r.acknowledged(r.load.Keys)
		// Kill the process at a random time during a pass, as in killOnce.
		<-time.After(time.Duration(r.chance.Int64N(int64(60 * time.Millisecond))))
		r.p.Stop(t, syscall.SIGKILL)
		r.start()
		r.acknowledged(1)
		cancel()
		<-streamed
		if err := r.client.Flush(process.WithDeadline(t)); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d records acknowledged, %d in the log", r.book.Count(), r.check())
	}
}
