package logappend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"time"

	"heartwood.dev/heartwood/internal/bench/tickets"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// distinctBytes is how much of different records is made; then the batches come round again. It is
// more than a codec's window and a processor's cache.
const distinctBytes = 64 << 20

// segmentBytes is as in Kafka's benchmark that docs/bench/append.md compares with.
const segmentBytes = 256 << 20

// Run makes a log, appends, reads all of it back, and removes it. It stops early, with ctx's error,
// when ctx ends.
func Run(ctx context.Context, opts Options) (result *Result, err error) {
	dir, err := os.MkdirTemp(opts.Dir, "heartwood-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the log: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := logstore.Open(logstore.Options{
		FS: vfs.OS{}, Dir: dir, Logger: slog.New(slog.DiscardHandler), FlushInterval: opts.Flush,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := store.Create(logstore.PartitionID{Topic: "bench"}, logstore.TopicID{1},
		opts.settings(), false)
	if err != nil {
		return nil, err
	}
	sent, err := makeBatches(opts)
	if err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, log: log, sent: sent, result: opts.result()}
	// What comes first pays for pools and page faults. It is appended to the same log, and not
	// counted.
	if err := r.append(len(sent)); err != nil {
		return nil, err
	}
	if err := r.measureAppend(opts.batches()); err != nil {
		return nil, err
	}
	return &r.result, r.measureRead()
}

// settings are those of a topic that takes all that is sent.
func (o Options) settings() topicconfig.Settings {
	s := topicconfig.Default()
	s.KeepCodec, s.Codec, s.CodecLevel = false, o.Codec, o.Level
	s.SegmentBytes, s.MessageBytesMax = segmentBytes, 2*batchBytesMax
	s.RetentionTime = topicconfig.Unlimited
	return s
}

func (o Options) result() Result {
	r := Result{
		Codec: o.Codec.String(), Sent: o.Sent.String(), BatchBytes: o.BatchBytes,
		RecordBytes: o.RecordBytes,
		Batches:     o.batches(), Records: o.batches() * o.perBatch(),
	}
	if _, _, _, leveled := o.Codec.Levels(); leveled {
		r.Level = "default"
		if o.Level != compress.LevelDefault {
			r.Level = strconv.Itoa(o.Level)
		}
	}
	return r
}

// batch is one that is sent, again and again.
type batch struct {
	record.Batch
	rawBytes int // of its records, uncompressed
}

// makeBatches makes as many different batches as are needed, up to distinctBytes of them.
func makeBatches(opts Options) ([]batch, error) {
	made := tickets.New(opts.Seed)
	raw, packed := record.NewBuilder(compress.None, compress.LevelDefault),
		record.NewBuilder(opts.Sent, compress.LevelDefault)
	var all []batch
	for size := 0; size < distinctBytes && len(all) < opts.batches(); size += opts.BatchBytes {
		id := record.Identity{
			LastOffsetDelta: int32(opts.perBatch() - 1), LeaderEpoch: -1, ProducerID: -1,
			ProducerEpoch: -1, BaseSequence: -1,
		}
		raw.Reset(id)
		packed.Reset(id)
		for i := range opts.perBatch() {
			r := record.Record{Offset: int64(i)}
			if opts.Letters {
				r.Value, r.Timestamp = made.Letters(opts.RecordBytes)
			} else {
				r.Key, r.Value, r.Timestamp = made.Next(opts.RecordBytes)
			}
			raw.Add(&r)
			packed.Add(&r)
		}
		whole, err := raw.Encode()
		if err != nil {
			return nil, err
		}
		b, err := packed.Build(nil)
		if err != nil {
			return nil, err
		}
		all = append(all, batch{b, whole.SizeBytes() - record.HeaderBytes})
	}
	return all, nil
}

// run is one measurement at work.
type run struct {
	ctx    context.Context // of the one call of Run that this is
	log    *logstore.Log
	sent   []batch
	next   int // of sent
	result Result
}

// append appends n batches, as if they came from a producer each time. Only what the log wrote into
// them is put back.
func (r *run) append(n int) error {
	now := time.Now()
	for range n {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		b := r.sent[r.next%len(r.sent)]
		r.next++
		b.SetBaseOffset(0)
		b.SetLeaderEpoch(-1)
		if _, err := r.log.Append(b.Batch, now); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	return nil
}

func (r *run) measureAppend(n int) error {
	before := r.log.Stats().SizeBytes
	for i := range n {
		r.result.RawBytes += int64(r.sent[(r.next+i)%len(r.sent)].rawBytes)
	}
	err := r.measure(&r.result.Append, func() error { return r.append(n) })
	r.result.StoredBytes = r.log.Stats().SizeBytes - before
	r.result.Ratio = float64(r.result.RawBytes) / float64(r.result.StoredBytes)
	return err
}

// measureRead reads as many batches from the log's end backwards, which the page cache has, and
// decompresses and parses them.
func (r *run) measureRead() error {
	end := r.log.LogEnd()
	r.log.AdvanceHighWatermark(end)
	from := end - int64(r.result.Records)
	return r.measure(&r.result.Read, func() error { return r.read(from, end) })
}

func (r *run) read(offset, end int64) error {
	var buf []byte
	records := 0
	for offset < end {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		slice, err := r.log.Read(offset, end, 1<<20, true)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if cap(buf) < slice.Length {
			buf = make([]byte, slice.Length)
		}
		_, err = slice.File.ReadAt(buf[:slice.Length], slice.Position)
		slice.Release()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		for rest := buf[:slice.Length]; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				return err
			}
			if err := b.Records(2*batchBytesMax,
				func(*record.Record) error { records++; return nil }); err != nil {
				return err
			}
			offset = b.NextOffset()
		}
	}
	if records != r.result.Records {
		return fmt.Errorf("read back %d records, %d were appended", records, r.result.Records)
	}
	return nil
}

// measure fills in what work cost.
func (r *run) measure(cost *Cost, work func() error) error {
	runtime.GC() // so that it does not pay for what was before
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, cpu := time.Now(), processTime()
	if err := work(); err != nil {
		return err
	}
	cost.set(time.Since(began), processTime()-cpu, &r.result)
	runtime.ReadMemStats(&after)
	cost.BatchAllocs = float64(after.Mallocs-before.Mallocs) / float64(r.result.Batches)
	cost.BatchAllocBytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(r.result.Batches)
	return nil
}
