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

// replicas are the logs of the replicas of one partition, each with its own passes, with a naive
// model of the replicated cleaning progress (X1, X3).
type replicas struct {
	t         *testing.T
	seed      uint64
	random    *rand.Rand
	now       time.Time
	retention time.Duration
	history   []string // produced records, by offset
	all       []*replica
	consumers []*consumer
	removed   int64 // tombstones
	checked   int
}

// replica is one replica.
type replica struct {
	*fakeLog
	cleanOffset int64   // its tombstone-clean offset
	reported    []int64 // as a leader: the last known offset of each replica, its own included
	minimum     int64   // the smallest offset of all replicas, as the leader reported it last
	progress    CleaningProgress
}

// consumer reads from different replicas, for at most one tombstone retention.
type consumer struct {
	started time.Time
	at      int64
	endMax  int64 // the highest end of the logs that it has read from
	state   map[string]string
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
	case 5, 6: // as the leader: receive the offsets of some, and report the smallest to another
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

// read lets a consumer read some records from a replica. A consumer at the end of all logs that it
// has read from must have the state of the produced records.
func (r *replicas) read(c *consumer, from *replica) {
	if r.now.Sub(c.started) >= r.retention {
		*c = consumer{started: r.now, state: map[string]string{}}
	}
	c.endMax = max(c.endMax, from.next)
	to := min(from.next, c.at+1+r.random.Int64N(2+from.next/8))
	records := from.committed()
	for ; c.at < to; c.at++ {
		if record := records[c.at]; record != nil {
			c.state[string(record.Key)] = string(record.Value)
		}
	}
	if c.at < c.endMax {
		return
	}
	want := map[string]string{}
	for _, one := range r.history[:c.at] {
		key, value, _ := strings.Cut(one, "=")
		want[key] = value
	}
	r.checked++
	for key := range want {
		if c.state[key] != want[key] {
			r.t.Fatalf("seed %d: %v after its start, at offset %d, a consumer has %s=%q, want %q",
				r.seed, r.now.Sub(c.started), c.at, key, c.state[key], want[key])
		}
	}
}

// A consumer that moves between replicas within the tombstone retention reads the tombstone of each
// deleted key, or never its value. Tombstones are removed eventually.
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
