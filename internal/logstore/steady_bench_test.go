package logstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// The log of BenchmarkSteadyState has 50,000 keys with values of 500 bytes. Each key is updated
// twelve times on average. A segment has 1,000 records.
const (
	steadyKeys          = 50_000
	steadyAppends       = 12 * steadyKeys
	steadyBatch         = 50
	steadySegmentBytes  = 1000 * steadyRecordBytes
	steadyRecordBytes   = 500
	steadyRecordsSecond = 100 // records appended per second of simulated time
)

// BenchmarkSteadyState measures how many bytes passes write for each appended byte, in the second
// half of a long run. It appends to a log in memory and runs a pass whenever the dirty ratio
// requires one. One iteration is the whole run. The metrics written/appended and read/appended are
// for data files; sidecars/appended is for sidecars, read and written; peak-% is the share of
// garbage at the start of a pass.
func BenchmarkSteadyState(b *testing.B) {
	for _, order := range []string{"uniform", "zipf"} {
		for _, c := range []struct{ dirty, garbage int }{{50, 20}, {10, 45}, {50, 0}} {
			b.Run(fmt.Sprintf("keys=%s/minDirty=%d/maxGarbage=%d", order, c.dirty, c.garbage),
				func(b *testing.B) {
					for b.Loop() {
						newSteady(b, order, c.dirty, c.garbage).run()
					}
				})
		}
	}
}

// steady is the state of one run of BenchmarkSteadyState.
type steady struct {
	*testing.B
	store *Store
	log   *Log
	key   func() int
	now   time.Time

	sum        clean.Stats // sum of the passes' stats in the second half
	appended   int64       // bytes appended in the second half
	peaks      float64
	passes     int
	secondHalf bool
}

func newSteady(b *testing.B, order string, dirty, garbage int) *steady {
	store, err := Open(Options{FS: vfs.NewMem(), Dir: "/data", Logger: quiet(),
		FlushInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	s := &steady{B: b, store: store, now: epoch0}
	s.log = createLog(b, store, keyedSettings(func(s *topicconfig.Settings) {
		s.KeepCodec, s.SegmentBytes, s.MessageBytesMax = true, steadySegmentBytes, 1<<20
		s.MinDirtyPercent, s.MaxGarbagePercent = float64(dirty), garbage
	}))
	random := rand.New(rand.NewPCG(4, 2))
	zipf := rand.NewZipf(random, 1.2, 1, steadyKeys-1)
	s.key = func() int { return random.IntN(steadyKeys) }
	if order == "zipf" {
		s.key = func() int { return int(zipf.Uint64()) }
	}
	return s
}

func (s *steady) run() {
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	value := make([]byte, steadyRecordBytes)
	for done := 0; done < steadyAppends; done += steadyBatch {
		s.secondHalf = done >= steadyAppends/2
		s.now = epoch0.Add(time.Duration(done) * time.Second / steadyRecordsSecond)
		builder.Reset(record.Identity{LastOffsetDelta: steadyBatch - 1, LeaderEpoch: -1,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
		for i := range steadyBatch {
			key := s.key()
			builder.Add(&record.Record{Offset: int64(i), Timestamp: s.now.UnixMilli(),
				Key: fmt.Appendf(nil, "key-%012d", key), Value: value})
		}
		batch, err := builder.Build(nil)
		if err == nil {
			_, err = s.log.Append(batch, s.now)
		}
		if err != nil {
			s.Fatal(err)
		}
		if s.secondHalf {
			s.appended += int64(len(batch))
		}
		if done%1000 == 0 {
			s.log.AdvanceHighWatermark(s.log.LogEnd())
			s.store.tick(s.now, false)
			for s.log.compaction.Sidecars.BuildNext(context.Background(), s.now,
				sidecars.Options{Options: keys.Options{MemoryBytes: sidecars.MemoryBytes}}) {
			}
			s.pass()
		}
	}
	over := float64(s.appended)
	s.ReportMetric(float64(s.sum.LogWrittenBytes)/over, "written/appended")
	s.ReportMetric(float64(s.sum.LogReadBytes)/over, "read/appended")
	s.ReportMetric(float64(s.sum.SidecarReadBytes+s.sum.SidecarWrittenBytes)/over,
		"sidecars/appended")
	s.ReportMetric(100*s.peaks/float64(max(1, s.passes)), "peak-%")
	s.ReportMetric(float64(s.passes), "passes")
}

// pass runs a pass if the dirty ratio requires one.
func (s *steady) pass() {
	c := s.log.Compaction()
	sections, _ := c.Sections(s.now)
	if sections.DirtyRatio()*100 <= c.Settings().MinDirtyPercent {
		return
	}
	before := s.log.Stats().SizeBytes
	stats, err := c.Pass(context.Background(), compaction.PassOptions{Settings: c.Settings(),
		Now:         s.now,
		MemoryBytes: 128 << 20})
	if err != nil {
		s.Fatal(err)
	}
	if !s.secondHalf {
		return
	}
	s.passes++
	s.peaks += float64(stats.GarbageBytes+before-s.log.Stats().SizeBytes) / float64(before)
	s.sum.LogWrittenBytes += stats.LogWrittenBytes
	s.sum.LogReadBytes += stats.LogReadBytes
	s.sum.SidecarReadBytes += stats.SidecarReadBytes
	s.sum.SidecarWrittenBytes += stats.SidecarWrittenBytes
}
