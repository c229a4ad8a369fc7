package replica

import (
	"errors"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// gapTrace is the sequence of disk operations of a follower that receives two records, each after
// an offset gap, and then joins the ISR. The trace shows that the note of a gap is durable before
// the first of these records is written (docs/internals/format/store.md).
const gapTrace = `
create a-0/copy.gap.tmp
write a-0/copy.gap.tmp 0+<n>
sync a-0/copy.gap.tmp
rename a-0/copy.gap.tmp -> a-0/copy.gap
sync-dir a-0
write a-0/00000000000000000000.log 0+<n>
write a-0/00000000000000000000.log <n>+<n>
remove a-0/copy.gap
`

// leaderBatch returns a batch as a leader stores it, at the given offset and in leader epoch 3.
func leaderBatch(t *testing.T, offset int64) []byte {
	t.Helper()
	bytes := batch(t, "value")
	b, _, err := record.Next(bytes)
	if err != nil {
		t.Fatal(err)
	}
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(3)
	return bytes
}

// follower makes the broker a follower of broker 2 in a partition of a compacted topic. The
// broker's log is an incomplete copy of broker 2's log.
func (b *broker) follower(t *testing.T) *partition {
	t.Helper()
	b.topic("a", 1, func(topic *metadata.Topic) {
		topic.Settings.Compact, topic.Settings.Delete = true, false
		topic.Partitions[0].Replicas, topic.Partitions[0].Leader,
			topic.Partitions[0].LeaderEpoch = []int32{1, 2}, 2, 3
	})
	b.apply()
	p := b.view.Load().partitions[id("a", 0)]
	p.changing.Lock()
	defer p.changing.Unlock()
	p.source = 2
	return p
}

func TestGapIsStoredBeforeRecordsBehindIt(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), "/data")
	b := newBrokerOn(t, trace)
	p := b.follower(t)
	r := p.role.Load()
	p.changing.Lock()
	defer p.changing.Unlock()
	trace.Take()
	out := *r
	out.inSync, out.inISR = false, false
	for _, offset := range []int64{5, 9} {
		if err := p.appendFetched(&out, &FollowerPartition{Offset: p.log.LogEnd()},
			leaderBatch(t, offset),
			time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	p.source = metadata.NoBroker
	in := *r
	in.inSync = true
	if err := p.requireSingleSource(&in); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[1-9][0-9]*\+[0-9]+`).ReplaceAllString(trace.Take(), "<n>+<n>")
	got = regexp.MustCompile(` 0\+[0-9]+`).ReplaceAllString(got, " 0+<n>")
	if got != strings.TrimPrefix(gapTrace, "\n") {
		t.Errorf("got disk operations\n%s\nwant%s", got, gapTrace)
	}
}

func TestNothingIsAppendedIfGapCannotBeStored(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	b := newBrokerOn(t, disk)
	p := b.follower(t)
	p.changing.Lock()
	defer p.changing.Unlock()
	out := *p.role.Load()
	disk.Inject(vfs.Rule{Op: vfs.OpRename, Name: "copy.gap.tmp", Times: 1, Err: syscall.ENOSPC})
	for _, want := range []int64{0, 6} {
		err := p.appendFetched(&out, &FollowerPartition{Offset: 0}, leaderBatch(t, 5), time.Now())
		if end := p.log.LogEnd(); end != want ||
			errors.Is(err, logstore.ErrStorage) != (want == 0) {
			t.Errorf("log end %d (%v), want %d", end, err, want)
		}
	}
}

// TestFollowerDoesNotReportLogToBeDiscarded checks that a broker does not fetch while the image's
// ISR contains an earlier epoch of this broker and its log must be discarded. A power cut has
// restored the note that the log is an incomplete copy of another leader's log. If the broker
// fetched, the leader could add it to the ISR because of a log that is then discarded.
func TestFollowerDoesNotReportLogToBeDiscarded(t *testing.T) {
	b := newBroker(t)
	p := b.follower(t)
	if err := p.log.AppendReplicated(leaderBatch(t, 0), time.Now()); err != nil {
		t.Fatal(err)
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	p.source = 3 // not broker 2, which is the leader
	member, out := *p.role.Load(), *p.role.Load()
	member.inSync, out.inSync = false, false
	member.inISR, out.inISR = true, false
	if err := p.requireSingleSource(&member); err != nil || member.follows(self) ||
		p.log.LogEnd() != 1 {
		t.Errorf("as an ISR member: fetches %t (%v), log end %d", member.follows(self), err,
			p.log.LogEnd())
	}
	if err := p.requireSingleSource(&out); err != nil || !out.follows(self) ||
		p.log.LogEnd() != 0 ||
		p.source != metadata.NoBroker {
		t.Errorf("outside the ISR: fetches %t (%v), log end %d, source %d",
			out.follows(self), err, p.log.LogEnd(), p.source)
	}
}
