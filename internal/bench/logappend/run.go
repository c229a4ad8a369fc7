package logappend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/bench/tickets"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// distinctBytes is the total size of the distinct batches, which are appended repeatedly. It
// exceeds the window of every codec and the CPU cache.
const distinctBytes = 64 << 20

// segmentBytes is the segment size that Kafka's benchmark uses. docs/internals/bench/append.md
// compares both results.
const segmentBytes = 256 << 20

// Run creates a log, appends batches, reads them back and removes the log. If ctx ends before the
// measurement, Run returns the error of ctx.
func Run(ctx context.Context, opts Options) (result *Result, err error) {
	dir, err := os.MkdirTemp(opts.Dir, "heartwood-bench-")
	if err != nil {
		return nil, fmt.Errorf("create log directory: %w", err)
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
	// The first round fills pools and causes page faults, so it is not measured.
	if err := r.append(len(sent)); err != nil {
		return nil, err
	}
	r.done, r.perBatch = opts.Done, opts.perBatch()
	if err := r.measureAppend(opts.batches()); err != nil {
		return nil, err
	}
	return &r.result, r.measureRead()
}

// settings returns topic settings with a maximum batch size that accepts every batch.
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

// batch is a generated batch, which is appended repeatedly.
type batch struct {
	record.Batch
	rawBytes int // uncompressed size of the records
}

// makeBatches generates the distinct batches: opts.batches() of them, or fewer if they reach
// distinctBytes.
func makeBatches(opts Options) ([]batch, error) {
	generator := tickets.New(opts.Seed)
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
				r.Value, r.Timestamp = generator.Letters(opts.RecordBytes)
			} else {
				r.Key, r.Value, r.Timestamp = generator.Next(opts.RecordBytes)
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

// run is the state of one measurement.
type run struct {
	ctx    context.Context // the context of Run
	log    *logstore.Log
	sent   []batch
	next   int // number of batches appended so far; modulo len(sent), the index of the next batch
	result Result
	// done counts the records, perBatch for each batch; nil: records are not counted.
	done     *atomic.Int64
	perBatch int
}

// count adds the records of one batch to done.
func (r *run) count() {
	if r.done != nil {
		r.done.Add(int64(r.perBatch))
	}
}

// append appends n batches. The log has set the base offset and the leader epoch of a batch that
// was appended before, so append resets both to the values that a producer sends.
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
		r.count()
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

// measureRead reads, decompresses and parses the batches that measureAppend appended. They are
// still in the page cache.
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
			r.count()
		}
	}
	if records != r.result.Records {
		return fmt.Errorf("read back %d of %d appended records", records, r.result.Records)
	}
	return nil
}

// measure runs work and stores its cost.
func (r *run) measure(cost *Cost, work func() error) error {
	runtime.GC() // so that work does not pay for collecting earlier garbage
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
