package clean

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// replicas are several logs of one partition, each with its own passes, and what each knows of the
// others: the rule of X1 and X3, with real passes and a dumb leader.
type replicas struct {
	t         *testing.T
	seed      uint64
	random    *rand.Rand
	now       time.Time
	retention time.Duration
	history   []string // what was produced, by offset
	all       []*copied
	consumers []*mover
	removed   int64 // tombstones
	checked   int
}

// copied is one replica.
type copied struct {
	*fakeLog
	lonelyTo int64   // what it tells
	heard    []int64 // what it has heard of all, itself too, as a leader
	told     int64
	agreed   CleaningProgress
}

// mover is a consumer that reads now from one replica and now from another, in the time for which
// tombstones are kept.
type mover struct {
	began   time.Time
	at      int64
	highest int64 // end of the logs that it has read of
	state   map[string]string
}

func newReplicas(t *testing.T, seed uint64) *replicas {
	r := &replicas{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), now: start,
		retention: 10 * time.Minute}
	count := 2 + r.random.IntN(2)
	for range count {
		one := &copied{fakeLog: newLog(t), heard: make([]int64, count)}
		one.job.Rules.TombstoneRetention, one.job.Rules.SegmentBytes = r.retention, 600
		one.job.Rules.MaxGarbagePercent = []int{0, 50, 95}[r.random.IntN(3)]
		r.all = append(r.all, one)
	}
	for range 3 {
		r.consumers = append(r.consumers, &mover{})
	}
	return r
}

func (r *replicas) any() (int, *copied) {
	i := r.random.IntN(len(r.all))
	return i, r.all[i]
}

func (r *replicas) step() {
	r.now = r.now.Add(time.Duration(r.random.IntN(10_000)) * time.Millisecond)
	i, one := r.any()
	switch r.random.IntN(12) {
	case 0, 1:
		key := fmt.Sprintf("k%d", r.random.IntN(40))
		if r.random.IntN(3) > 0 {
			key = fmt.Sprintf("%s=%d", key, len(r.history))
		}
		r.history = append(r.history, key)
	case 2, 3: // it copies some more
		for one.next < int64(len(r.history)) && r.random.IntN(8) > 0 {
			one.now = r.now
			one.put(r.history[one.next])
		}
	case 4:
		if one.active().SizeBytes() > 0 {
			one.roll()
		}
		one.now, one.job.CleaningProgress = r.now, one.agreed.Truncate(one.told)
		stats := one.pass()
		one.lonelyTo, r.removed = stats.TombstoneCleanOffset, r.removed+stats.TombstonesRemoved
	case 5, 6: // it leads for a moment, hears of some, and tells another
		for j, other := range r.all {
			if j == i || r.random.IntN(2) == 0 {
				one.heard[j] = other.lonelyTo
			}
		}
		told := int64(math.MaxInt64)
		for _, heard := range one.heard {
			told = min(told, heard)
		}
		_, other := r.any()
		other.told, other.agreed = told, other.agreed.Add(told, r.now, r.retention)
	default:
		r.read(r.consumers[r.random.IntN(len(r.consumers))], one)
	}
}

// read reads some more from a replica. At the end of all that it was told of, a consumer has the
// state of the log as it was produced.
func (r *replicas) read(c *mover, from *copied) {
	if r.now.Sub(c.began) >= r.retention {
		*c = mover{began: r.now, state: map[string]string{}}
	}
	c.highest = max(c.highest, from.next)
	to := min(from.next, c.at+1+r.random.Int64N(2+from.next/8))
	records := from.committed()
	for ; c.at < to; c.at++ {
		if record := records[c.at]; record != nil {
			c.state[string(record.Key)] = string(record.Value)
		}
	}
	if c.at < c.highest {
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
			r.t.Fatalf(
				"seed %d: %v after its beginning, at %d, %s is %q to a consumer, and was produced as %q",
				r.seed,
				r.now.Sub(c.began),
				c.at,
				key,
				c.state[key],
				want[key],
			)
		}
	}
}

// TestX1ConsumerCanMoveBetweenReplicas: whichever replicas it reads from, in the time for which
// tombstones are kept it sees each deletion, or never the value. And tombstones go in the end.
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
		t.Errorf("%d tombstones went, %d reads were checked: that proves nothing", removed, checked)
	}
	t.Logf("%d tombstones went, %d reads were checked", removed, checked)
}
