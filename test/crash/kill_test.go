package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/traffic"
)

// Segments are so small, and minDirtyPercent is so low, that the cleaner always has work. The
// tombstone retention is so short that tombstones are removed during the test.
const (
	cluster = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: crash}
spec: {brokers: 1, metrics: {partitions: Full}}
`
	topic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: tickets}
spec:
  cluster: crash
  partitions: 1
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 5, tombstoneRetention: 2s}
  compression: {type: zstd}
  segment: {size: 128Ki, maxAge: 2s}
`
)

// number returns the number in the environment variable name, or standard if the variable is unset.
func number(t *testing.T, name string, standard uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// run is a log, its producer, and the ledger of acknowledged records.
type run struct {
	process.Setup
	t      *testing.T
	p      *process.Process
	client *kgo.Client
	book   *ledger.Ledger
	load   traffic.Updates
	chance *rand.Rand
}

// TestKillDuringCleaningLosesAndRestoresNothing kills the process at random times during the
// cleaner's passes, while the cleaner reads, writes, renames or removes files. No acknowledged
// record must be lost, and no deleted key must reappear.
func TestKillDuringCleaningLosesAndRestoresNothing(t *testing.T) {
	t.Parallel()
	rounds, seed := number(t, "HEARTWOOD_CRASH_ROUNDS", 2), seed.New(t)
	r := &run{
		Setup: process.NewSetup(t, 1, cluster, topic), t: t, book: ledger.New(),
		chance: rand.New(rand.NewPCG(seed, 0)),
		load:   traffic.Updates{Topic: "tickets", Keys: 5000, DeleteEvery: 7, Seed: seed},
	}
	bootstrap := r.start()
	var err error
	if r.client, err = kgo.NewClient(
		kgo.SeedBrokers(bootstrap...), kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerBatchMaxBytes(32<<10),
		kgo.MaxBufferedRecords(2000),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	for round := range rounds {
		// Stream starts at this round number, which is part of each value. Therefore all values are
		// different.
		r.load.Rounds = int(round) * 1000
		r.killOnce()
	}
	r.settle()
}

func (r *run) start() (bootstrap []string) {
	r.p = process.Start(r.t, r.Args()...)
	bootstrap, _ = r.p.Ready(r.t)
	return bootstrap
}

// killOnce streams updates, kills the process during a pass, restarts it, continues to stream, and
// checks the log.
func (r *run) killOnce() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	streamed := make(chan int64, 1)
	go func() { streamed <- traffic.Stream(ctx, r.client, r.book, r.load) }()
	r.acknowledged(r.load.Keys) // ensures that the log contains new garbage
	phase := r.cleaning()
	// Kill the process at a random time during the pass, which takes tens of milliseconds.
	<-time.After(time.Duration(r.chance.Int64N(int64(60 * time.Millisecond))))
	r.p.Stop(r.t, syscall.SIGKILL)

	r.start()
	r.acknowledged(1) // the producer continues with the same id and sequence numbers
	cancel()
	sent := <-streamed
	if err := r.client.Flush(process.WithDeadline(r.t)); err != nil {
		r.t.Fatal(err)
	}
	stored := r.check()
	r.t.Logf("killed while %s; %d records sent, %d acknowledged in total, %d in the log",
		phase, sent, r.book.Count(), stored)
}

// acknowledged waits until n more records are acknowledged.
func (r *run) acknowledged(n int) {
	r.t.Helper()
	before := r.book.Count()
	await.For(r.t, func() string {
		if more := r.book.Count() - before; more < n {
			return fmt.Sprintf("%d of %d records acknowledged", more, n)
		}
		return ""
	})
}

// cleaning polls without a delay until a pass runs, and returns the phase of the pass.
func (r *run) cleaning() (phase string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), await.Limit)
	defer cancel()
	for ctx.Err() == nil {
		metrics := r.Metrics(r.t)
		for _, phase := range []string{"indexing", "deduplicating", "rewriting", "committing"} {
			if value, _ := metrics.Value("cleaner_phase", "tickets", 0, "phase", phase); value == 1 {
				return phase
			}
		}
	}
	r.t.Fatal("no pass of the cleaner started")
	return ""
}

// check compares the log with the ledger and returns the number of records in the log.
func (r *run) check() int {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), await.Limit)
	defer cancel()
	stored, err := traffic.VerifyCompacted(ctx, []string{r.Listen}, "tickets", r.book)
	if err != nil {
		r.t.Fatal(err)
	}
	return stored
}

// settle waits until the log is fully cleaned after the last update. It then contains one record
// for each key and no tombstones.
func (r *run) settle() {
	r.t.Helper()
	await.For(r.t, func() string {
		// The record that marks the end for ReadAll causes the active segment to be rolled.
		read, err := traffic.ReadAll(process.WithDeadline(r.t), []string{r.Listen}, "tickets")
		if err != nil {
			return err.Error()
		}
		if err := r.book.Check(read); err != nil {
			r.t.Fatal(err)
		}
		tombstones, keys := 0, map[string]bool{}
		for _, record := range read {
			keys[string(record.Key)] = true
			if record.Value == nil {
				tombstones++
			}
		}
		if len(read) != len(keys) || tombstones > 0 {
			return fmt.Sprintf("%d records of %d keys, %d of them tombstones", len(read), len(keys),
				tombstones)
		}
		return ""
	})
	r.everyOffset()
}
