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

// gapTrace is what is done to the disk when a follower is sent something behind a gap, and more of
// it, and is in sync at last: the note is durable before the first record behind the gap is written
// (docs/format/store.md).
const gapTrace = `
create a-0/copy.gap.tmp
write a-0/copy.gap.tmp 0+<n>
sync a-0/copy.gap.tmp
rename a-0/copy.gap.tmp -> a-0/copy.gap
sync-dir a-0
create a-0/leader-epoch-checkpoint.tmp
write a-0/leader-epoch-checkpoint.tmp 0+<n>
sync a-0/leader-epoch-checkpoint.tmp
rename a-0/leader-epoch-checkpoint.tmp -> a-0/leader-epoch-checkpoint
sync-dir a-0
write a-0/00000000000000000000.log 0+<n>
write a-0/00000000000000000000.log <n>+<n>
remove a-0/copy.gap
`

// placed is a batch as a leader has it at an offset.
func placed(t *testing.T, offset int64) []byte {
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

// follower gives the broker a partition of a compacted topic that broker 2 leads, and of which it
// has begun a copy.
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

func TestAGapIsNotedBeforeWhatLiesBehindIt(t *testing.T) {
	trace := vfs.NewTrace(vfs.NewMem(), "/data")
	b := newBrokerOn(t, trace)
	p := b.follower(t)
	r := p.role.Load()
	p.changing.Lock()
	defer p.changing.Unlock()
	trace.Take()
	out := *r
	out.inSync, out.member = false, false
	for _, offset := range []int64{5, 9} {
		if err := p.appendPulled(&out, &FollowerPartition{Offset: p.log.LogEnd()},
			placed(t, offset),
			time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	p.source = metadata.NoBroker
	in := *r
	in.inSync = true
	if err := p.oneSource(&in); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[1-9][0-9]*\+[0-9]+`).ReplaceAllString(trace.Take(), "<n>+<n>")
	got = regexp.MustCompile(` 0\+[0-9]+`).ReplaceAllString(got, " 0+<n>")
	if got != strings.TrimPrefix(gapTrace, "\n") {
		t.Errorf("the disk sees\n%s", got)
	}
}

// Nothing behind a gap is appended while that cannot be noted.
func TestAGapThatCannotBeNotedIsNotPassed(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	b := newBrokerOn(t, disk)
	p := b.follower(t)
	p.changing.Lock()
	defer p.changing.Unlock()
	out := *p.role.Load()
	disk.Inject(vfs.Rule{Op: vfs.OpRename, Name: "copy.gap.tmp", Times: 1, Err: syscall.ENOSPC})
	for _, want := range []int64{0, 6} {
		err := p.appendPulled(&out, &FollowerPartition{Offset: 0}, placed(t, 5), time.Now())
		if end := p.log.LogEnd(); end != want ||
			errors.Is(err, logstore.ErrStorage) != (want == 0) {
			t.Errorf("the log ends at %d (%v), want %d", end, err, want)
		}
	}
}

// TestALogThatBeginsAnewIsNotToldOfBefore: a note of a copy came back with a power cut. As long as
// an earlier incarnation is in sync on record, the leader hears nothing of the log: it could take
// the broker into the in-sync replicas, and the log would be given up then.
func TestALogThatBeginsAnewIsNotToldOfBefore(t *testing.T) {
	b := newBroker(t)
	p := b.follower(t)
	if err := p.log.AppendReplicated(placed(t, 0), time.Now()); err != nil {
		t.Fatal(err)
	}
	p.changing.Lock()
	defer p.changing.Unlock()
	p.source = 3 // not the leader, which is broker 2
	member, out := *p.role.Load(), *p.role.Load()
	member.inSync, out.inSync = false, false
	member.member, out.member = true, false
	if err := p.oneSource(&member); err != nil || member.follows(self) || p.log.LogEnd() != 1 {
		t.Errorf("a member fetches: %t (%v), its log ends at %d", member.follows(self), err,
			p.log.LogEnd())
	}
	if err := p.oneSource(&out); err != nil || !out.follows(self) || p.log.LogEnd() != 0 ||
		p.source != metadata.NoBroker {
		t.Errorf("out of sync it fetches: %t (%v), its log ends at %d, a copy of %d",
			out.follows(self), err, p.log.LogEnd(), p.source)
	}
}
