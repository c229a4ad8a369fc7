package clean

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// replicas contains the logs of a partition's replicas, which are cleaned independently, and a
// naive model of the replicated cleaning progress (X1, X3).
type replicas struct {
	t         *testing.T
	seed      uint64
	random    *rand.Rand
	now       time.Time
	retention time.Duration
	history   []string // produced records, by offset
	all       []*replica
	consumers []*consumer
	removed   int64 // number of removed tombstones
	checked   int   // number of comparisons of a consumer's state
}

// replica is the log of one replica and the replica's state of the replicated cleaning progress.
type replica struct {
	*fakeLog
	cleanOffset int64 // tombstone-clean offset of this replica
	// reported is the leader's list of each replica's last known tombstone-clean offset, including
	// its own.
	reported []int64
	// minimum is the smallest tombstone-clean offset of all replicas, as the leader last sent it.
	minimum  int64
	progress CleaningProgress
}

// consumer reads from different replicas, for at most one tombstone retention.
type consumer struct {
	started  time.Time
	position int64 // next offset to read
	endMax   int64 // highest log end offset of the replicas that it has read from
	state    map[string]string
}

func newReplicas(t *testing.T, seed uint64) *replicas {
	r := &replicas{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), now: start,
		retention: 10 * time.Minute}
	count := 2 + r.random.IntN(2)
	for range count {
		one := &replica{fakeLog: newLog(t), reported: make([]int64, count)}
		one.job.Rules.TombstoneRetention, one.job.Rules.SegmentBytes = r.retention, 600
		one.job.Rules.MaxGarbagePercent = []int{0, 50, 95}[r.random.IntN(3)]
		r.all = append(r.all, one)
	}
	for range 3 {
		r.consumers = append(r.consumers, &consumer{})
	}
	return r
}

func (r *replicas) pick() (int, *replica) {
	i := r.random.IntN(len(r.all))
	return i, r.all[i]
}

func (r *replicas) step() {
	r.now = r.now.Add(time.Duration(r.random.IntN(10_000)) * time.Millisecond)
	i, one := r.pick()
	switch r.random.IntN(12) {
	case 0, 1:
		key := fmt.Sprintf("k%d", r.random.IntN(40))
		if r.random.IntN(3) > 0 {
			key = fmt.Sprintf("%s=%d", key, len(r.history))
		}
		r.history = append(r.history, key)
	case 2, 3: // replicate some records
		for one.next < int64(len(r.history)) && r.random.IntN(8) > 0 {
			one.now = r.now
			one.put(r.history[one.next])
		}
	case 4:
		if one.active().SizeBytes() > 0 {
			one.roll()
		}
		one.now, one.job.CleaningProgress = r.now, one.progress.Truncate(one.minimum)
		stats := one.pass()
		one.cleanOffset, r.removed = stats.TombstoneCleanOffset, r.removed+stats.TombstonesRemoved
	// As the leader, receive the tombstone-clean offsets of some replicas, and send the smallest
	// offset to one replica.
	case 5, 6:
		for j, other := range r.all {
			if j == i || r.random.IntN(2) == 0 {
				one.reported[j] = other.cleanOffset
			}
		}
		minimum := slices.Min(one.reported)
		_, other := r.pick()
		other.minimum = minimum
		other.progress = other.progress.Add(minimum, r.now, r.retention)
	default:
		r.read(r.consumers[r.random.IntN(len(r.consumers))], one)
	}
}

// read makes a consumer read some records from a replica. If the consumer has read up to the
// highest log end of its replicas, it must have the state that results from all produced records
// below this offset.
func (r *replicas) read(c *consumer, from *replica) {
	if r.now.Sub(c.started) >= r.retention {
		*c = consumer{started: r.now, state: map[string]string{}}
	}
	c.endMax = max(c.endMax, from.next)
	to := min(from.next, c.position+1+r.random.Int64N(2+from.next/8))
	records := from.committed()
	for ; c.position < to; c.position++ {
		if record := records[c.position]; record != nil {
			c.state[string(record.Key)] = string(record.Value)
		}
	}
	if c.position < c.endMax {
		return
	}
	want := map[string]string{}
	for _, one := range r.history[:c.position] {
		key, value, _ := strings.Cut(one, "=")
		want[key] = value
	}
	r.checked++
	for key := range want {
		if c.state[key] != want[key] {
			r.t.Fatalf("seed %d: %v after its start, at offset %d, a consumer has %s=%q, want %q",
				r.seed, r.now.Sub(c.started), c.position, key, c.state[key], want[key])
		}
	}
}

// TestX1ConsumerCanMoveBetweenReplicas checks that a consumer that moves between replicas within
// the tombstone retention never keeps the value of a deleted key: if it has read the value, it also
// reads the tombstone. The test also checks that passes do remove tombstones.
func TestX1ConsumerCanMoveBetweenReplicas(t *testing.T) {
	var removed int64
	checked := 0
	for s := range seed.Sequence(t, 30) {
		r := newReplicas(t, s)
		for range 1500 {
			r.step()
		}
		removed, checked = removed+r.removed, checked+r.checked
	}
	if removed == 0 || checked == 0 {
		t.Errorf("%d tombstones removed, %d reads checked: the test proves nothing", removed,
			checked)
	}
	t.Logf("%d tombstones removed, %d reads checked", removed, checked)
}
