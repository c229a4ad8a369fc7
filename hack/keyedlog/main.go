package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

func main() {
	var o options
	codec := ""
	flag.StringVar(&o.dir, "dir", "",
		"data directory to create; the partition's directory in it is t-0")
	flag.IntVar(&o.records, "records", 1_200_000, "number of records")
	flag.IntVar(&o.keys, "keys", 600_000, "number of keys")
	flag.IntVar(&o.size, "size", 512, "size of a record's key and value in bytes")
	flag.StringVar(&o.order, "order", "same",
		"order in which the keys recur: same (ascending each time), random (shuffled each time)\n"+
			"or uniform (each record has a random key)")
	flag.StringVar(&codec, "compression", "none", "codec: none, gzip, snappy, lz4 or zstd")
	flag.Int64Var(&o.segmentBytes, "segment-bytes", 64<<20, "size of a segment in bytes")
	flag.IntVar(&o.batchBytes, "batch-bytes", 64<<10, "size of a batch in bytes, before compression")
	flag.Uint64Var(&o.seed, "seed", 1, "seed for keys and values")
	flag.Parse()
	if err := run(o, codec); err != nil {
		fmt.Fprintln(os.Stderr, "keyedlog:", err)
		os.Exit(1)
	}
}

// run writes the log and prints a summary. An interrupt ends it with an error.
func run(o options, codec string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.codec, err = compress.ParseCodec(codec); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	result, err := write(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// options contains the values of the flags.
type options struct {
	dir                 string
	records, keys, size int
	order               string
	codec               compress.Codec
	segmentBytes        int64
	batchBytes          int
	seed                uint64
}

func (o options) validate() error {
	var wrong []error
	if o.dir == "" {
		wrong = append(wrong, errors.New("flag -dir is missing"))
	}
	if o.records < 1 || o.keys < 1 || o.keys > 1<<31 {
		wrong = append(wrong, fmt.Errorf("%d records with %d keys: need at least one of each",
			o.records, o.keys))
	}
	if orders[o.order] == nil {
		wrong = append(wrong, fmt.Errorf("unknown -order %q", o.order))
	}
	if o.size < keyBytes+8 || o.size > 1<<20 || o.batchBytes < o.size || o.batchBytes > 64<<20 {
		wrong = append(wrong, fmt.Errorf("records of %d bytes in batches of %d: "+
			"need records of %d to 1048576 bytes and batches of at least one record",
			o.size, o.batchBytes, keyBytes+8))
	}
	return errors.Join(wrong...)
}

// summary describes the created log.
type summary struct {
	Records  int     `json:"records"`
	Bytes    int64   `json:"bytes"` // total size of the data files
	Segments int     `json:"segments"`
	Seconds  float64 `json:"seconds"`
}

// sidecarTimeout is the time limit for building all key sidecars. The cleaner builds one sidecar at
// a time.
const sidecarTimeout = 10 * time.Minute

// write creates the log, and waits until all segments with records are sealed and have a key
// sidecar.
func write(ctx context.Context, o options) (result summary, err error) {
	began := time.Now()
	store, err := logstore.Open(logstore.Options{FS: vfs.OS{}, Dir: o.dir, Logger: slog.Default()})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	log, err := store.Create(logstore.PartitionID{Topic: "t"}, logstore.TopicID{1}, o.settings(),
		false)
	if err != nil {
		return result, err
	}
	cleaner := cleaner.New(store, cleaner.Options{})
	defer cleaner.Close()
	if err := o.append(ctx, log); err != nil {
		return result, err
	}
	rolled := o.settings()
	// With this setting, the log's next periodic maintenance rolls the active segment.
	rolled.SegmentAge = time.Millisecond
	log.Configure(rolled, false)
	result = summary{Records: o.records, Bytes: log.Stats().SizeBytes}
	result.Segments, err = awaitSidecars(ctx, filepath.Join(o.dir, "t-0"), log.LogEnd(),
		sidecarTimeout)
	result.Seconds = time.Since(began).Seconds()
	return result, err
}

// settings returns the settings of a compacted topic that is never cleaned.
func (o options) settings() topicconfig.Settings {
	s := topicconfig.Default()
	s.Compact, s.Delete, s.KeepCodec = true, false, true
	s.SegmentBytes, s.MessageBytesMax = o.segmentBytes, 128<<20
	s.MinLag = 365 * 24 * time.Hour
	return s
}

// append appends all records in batches, as if producers had sent them.
func (o options) append(ctx context.Context, log *logstore.Log) error {
	random := rand.New(rand.NewPCG(o.seed, 1))
	next, pool := orders[o.order](random, o.keys), newPool(random)
	builder := record.NewBuilder(o.codec, compress.LevelDefault)
	perBatch := max(1, o.batchBytes/o.size)
	var scratch []byte
	var key []byte
	for done := 0; done < o.records; {
		if err := ctx.Err(); err != nil {
			return err
		}
		count, now := min(perBatch, o.records-done), time.Now()
		builder.Reset(record.Identity{LastOffsetDelta: int32(count - 1), LeaderEpoch: -1,
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
		for i := range count {
			key = appendKey(key[:0], next(done+i))
			from := random.IntN(len(pool) - o.size)
			builder.Add(&record.Record{Offset: int64(i), Timestamp: now.UnixMilli(), Key: key,
				Value: pool[from : from+o.size-keyBytes]})
		}
		batch, err := builder.Build(scratch[:0])
		if err != nil {
			return fmt.Errorf("build batch: %w", err)
		}
		scratch = batch
		if _, err := log.Append(batch, now); err != nil {
			return fmt.Errorf("append batch: %w", err)
		}
		done += count
		log.AdvanceHighWatermark(log.LogEnd())
	}
	return nil
}

// awaitSidecars waits until every segment except the empty active one has a key sidecar. The active
// segment begins at offset end. awaitSidecars returns the number of segments with a sidecar.
func awaitSidecars(ctx context.Context, dir string, end int64, within time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	last := filepath.Join(dir, fmt.Sprintf("%020d.log", end))
	for {
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			return 0, err
		}
		sidecars, err := filepath.Glob(filepath.Join(dir, "*.keys"))
		if err != nil {
			return 0, err
		}
		if n := len(logs); n > 1 && logs[n-1] == last && len(sidecars) == n-1 {
			return n - 1, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for sidecars: %d of %d segments have one: %w", len(sidecars),
				len(logs), ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
