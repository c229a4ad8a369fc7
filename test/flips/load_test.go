//go:build flips

package flips

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ledger"
)

// topic is a topic of the cluster, and its load.
type topic struct {
	name       string
	compacted  bool
	valueBytes int // size of the random part of a value
	book       *ledger.Ledger
}

// digestBytes is the size of the digest at the end of each value, in hexadecimal.
const digestBytes = 16

// sign appends a digest of the key and the value to the value.
func sign(key, value []byte) []byte {
	sum := sha256.Sum256(append(append([]byte{}, key...), value...))
	return append(value, hex.EncodeToString(sum[:digestBytes/2])...)
}

// signed reports whether a value ends with its digest. A tombstone has none.
func signed(key, value []byte) bool {
	if value == nil {
		return true
	}
	if len(value) < digestBytes {
		return false
	}
	bare := append([]byte{}, value[:len(value)-digestBytes]...)
	return bytes.Equal(sign(key, bare), value)
}

// load produces to the topics until stop is called, and reads all topics from their start again
// and again, without a check of checksums.
type load struct {
	wrong   atomic.Int64 // values without their digest
	read    atomic.Int64
	cancel  context.CancelFunc
	running sync.WaitGroup

	// reading is held for reading by each consumer. interrupt ends the reads of all consumers.
	reading   sync.RWMutex
	interrupt atomic.Pointer[context.CancelFunc]
	reads     atomic.Pointer[context.Context]
}

// whileNobodyReads calls do while no fetch is in flight. The kernel sends pages of the page cache
// by reference, so a byte that changes after its batch was verified would reach the client. A disk
// does not change pages that are in the cache.
func (l *load) whileNobodyReads(do func()) {
	(*l.interrupt.Load())()
	l.reading.Lock()
	defer l.reading.Unlock()
	do()
	l.allowReads(context.Background())
}

func (l *load) allowReads(ctx context.Context) {
	reads, interrupt := context.WithCancel(ctx)
	l.reads.Store(&reads)
	l.interrupt.Store(&interrupt)
}

func startLoad(t *testing.T, bootstrap []string, topics []topic, seed uint64) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	l.allowReads(context.Background())
	for i, to := range topics {
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...),
			kgo.ProducerBatchMaxBytes(8<<10), kgo.MaxBufferedRecords(200))
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.running.Go(func() {
			defer client.Close()
			l.produce(ctx, client, to, random)
		})
		l.running.Go(func() { l.consume(ctx, t, bootstrap, to) })
	}
	return l
}

// stop ends the load, and waits for it.
func (l *load) stop() {
	l.cancel()
	(*l.interrupt.Load())()
	l.running.Wait()
}

// produce sends batches of records, and waits for each batch.
func (l *load) produce(ctx context.Context, client *kgo.Client, to topic, random *rand.Rand) {
	for round := 0; ctx.Err() == nil; round++ {
		var batch []*kgo.Record
		for range 40 {
			r := &kgo.Record{Topic: to.name, Key: fmt.Appendf(nil, "key-%05d", random.IntN(400))}
			if !to.compacted || random.IntN(20) > 0 {
				value := fmt.Appendf(nil, "round %d: ", round)
				for range to.valueBytes {
					value = append(value, byte('a'+random.IntN(26)))
				}
				r.Value = sign(r.Key, value)
			}
			to.book.Sent(r)
			batch = append(batch, r)
		}
		// The context of the load would abandon sent records.
		for _, result := range client.ProduceSync(context.WithoutCancel(ctx), batch...) {
			if result.Err == nil {
				to.book.Acknowledged(result.Record)
			}
		}
	}
}

// consume reads a topic from its start to its end, again and again, with a new client each time.
func (l *load) consume(ctx context.Context, t *testing.T, bootstrap []string, from topic) {
	for ctx.Err() == nil {
		l.readOnce(t, bootstrap, from)
	}
}

// readOnce reads a topic from its start to its end, or until the reads are interrupted.
func (l *load) readOnce(t *testing.T, bootstrap []string, from topic) {
	l.reading.RLock()
	defer l.reading.RUnlock()
	ctx := *l.reads.Load()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(from.name),
		kgo.DisableFetchCRCValidation(), kgo.FetchMaxBytes(256<<10),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for quiet := 0; quiet < 20 && ctx.Err() == nil; {
		fetches := client.PollFetches(ctx)
		n := 0
		fetches.EachRecord(func(r *kgo.Record) {
			n++
			if !signed(r.Key, r.Value) {
				l.wrong.Add(1)
				t.Errorf("%s-%d offset %d: wrong value %q of key %q", r.Topic, r.Partition,
					r.Offset, r.Value, r.Key)
			}
		})
		l.read.Add(int64(n))
		if quiet++; n > 100 { // more than what is produced meanwhile
			quiet = 0
		}
	}
}
