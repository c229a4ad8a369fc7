package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// runInstead is the name of an environment variable. If the variable is set, the test binary runs
// no tests. Instead, it runs heartwood with the arguments in the variable, one per line.
const runInstead = "HEARTWOOD_TEST_RUN"

func TestMain(m *testing.M) {
	if args := os.Getenv(runInstead); args != "" {
		os.Exit(run(context.Background(), strings.Split(args, "\n"), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// heartwood returns a command that runs heartwood in its own process, and the buffer of the
// command's output.
func heartwood(t *testing.T, args ...string) (command *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	command, output = exec.CommandContext(t.Context(), os.Args[0]), &bytes.Buffer{}
	command.Env = append(os.Environ(), runInstead+"="+strings.Join(args, "\n"))
	command.Stdout, command.Stderr = output, output
	return command, output
}

var killedID = logstore.PartitionID{Topic: "tickets", Index: 0}

// openStore opens a data directory like a broker. It returns the store and the store's log
// killedID.
func openStore(t *testing.T, dir string) (*logstore.Store, *logstore.Log) {
	t.Helper()
	store, err := logstore.Open(logstore.Options{FS: vfs.OS{}, Dir: dir,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	log := store.Log(killedID)
	return store, log
}

// writeStore creates a data directory with a log that contains three records of each key. It
// returns the offset of each key's latest record.
func writeStore(t *testing.T, keys int) (dir string, latest map[string]int64) {
	t.Helper()
	dir, latest = t.TempDir(), map[string]int64{}
	store, _ := openStore(t, dir)
	log, err := store.Create(killedID, logstore.TopicID{1}, killedSettings(), true)
	if err != nil {
		t.Fatal(err)
	}
	write(t, log, keys, latest)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, latest
}

// killedSettings returns settings with compaction and small segments.
func killedSettings() topicconfig.Settings {
	settings := topicconfig.Default()
	settings.Compact, settings.Delete, settings.SegmentBytes = true, false, 64<<10
	return settings
}

// write appends three records of each key, and stores the offset of each key's last record in
// latest.
func write(t *testing.T, log *logstore.Log, keys int, latest map[string]int64) {
	t.Helper()
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	first := int(log.LogEnd())
	for i := first; i < first+3*keys; i++ {
		builder.Reset(record.Identity{LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1,
			BaseSequence: -1})
		key := fmt.Sprintf("k%d", i%keys)
		builder.Add(&record.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(key),
			Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("v", 300))})
		batch, err := builder.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		appended, err := log.Append(batch, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		latest[key] = appended.BaseOffset
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// readBack checks that the log contains each key's latest record. It returns the number of records
// in the log.
func readBack(t *testing.T, dir string, latest map[string]int64) (records int) {
	t.Helper()
	store, log := openStore(t, dir)
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	if log == nil {
		t.Fatal(store.Offline())
	}
	found := map[string]int64{}
	for offset := log.LogStart(); offset < log.LogEnd(); {
		slice, err := log.Read(offset, log.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, slice.Length)
		if _, err := slice.File.ReadAt(content, slice.Position); err != nil || slice.Length == 0 {
			t.Fatalf("read at %d of %d: %v", offset, log.LogEnd(), err)
		}
		slice.Release()
		for len(content) > 0 {
			batch, rest, err := record.Next(content)
			if err != nil {
				t.Fatal(err)
			}
			err = batch.Records(1<<20, func(r *record.Record) error {
				found[string(r.Key)] = r.Offset
				records++
				if !strings.HasPrefix(string(r.Value), fmt.Sprintf("%d v", r.Offset)) {
					return fmt.Errorf("offset %d: got value %.20s, want one that starts with the offset", r.Offset, r.Value)
				}
				return batch.CheckCRC()
			})
			if err != nil {
				t.Fatal(err)
			}
			content, offset = rest, batch.NextOffset()
		}
	}
	for key, offset := range latest {
		if found[key] != offset {
			t.Fatalf("the latest record of %s is at %d, want %d", key, found[key], offset)
		}
	}
	return records
}

// TestCleanContinuesAfterKill kills log clean at random times. While log clean runs, it must hold
// the directory lock. After each kill, the log must open without loss of records, and the next run
// of log clean must continue.
func TestCleanContinuesAfterKill(t *testing.T) {
	const keys = 700
	dir, latest := writeStore(t, keys)
	partition := filepath.Join(dir, killedID.String())
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for try := 0; killed < 3; try++ {
		if try == 20 {
			t.Fatalf("%d of %d runs were killed while writing", killed, try)
		}
		command, output := heartwood(t, "log", "clean", "--io-rate", "256Ki",
			"--tombstone-retention",
			"0s", partition)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		working, over := awaitWriting(t, partition, ended)
		if working && killed == 0 {
			wantLocked(t, partition, command.Process)
		}
		if working {
			// Kill the process at a random time during the pass.
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			if err := command.Process.Kill(); err != nil {
				t.Log(err) // fails if the process has already exited
			}
			over = <-ended
			killed++
		}
		if over != nil && !strings.Contains(over.Error(), "killed") {
			t.Fatalf("log clean: %v: %s (seed %d)", over, output, seed)
		}
		records := readBack(t, dir, latest)
		if working {
			continue
		}
		if records > keys+200 {
			t.Errorf("got %d records after a complete run, want at most one per key and 200 more", records)
		}
		// The run ended before it could be killed, and nothing is left to clean. So write more records.
		store, log := openStore(t, dir)
		log.Configure(killedSettings(), true)
		write(t, log, keys, latest)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if command, output := heartwood(t, "log", "clean", partition); command.Run() != nil {
		t.Fatalf("the last run failed: %s", output)
	}
	// The active segment is not cleaned. It contains at most 200 records in addition to the records in
	// the clean section.
	if records := readBack(t, dir, latest); records > keys+200 {
		t.Errorf("got %d records of %d keys, want at most 200 more than keys", records, keys)
	}
	left, err := filepath.Glob(filepath.Join(partition, "*.cleaned"))
	if err != nil || len(left) > 0 {
		t.Errorf("got output files %v (%v), want none after a complete run", left, err)
	}
}

// awaitWriting waits until log clean writes an output segment or exits. working is true if it
// writes. err is the result of the exited process.
func awaitWriting(t *testing.T, partition string, ended chan error) (working bool, err error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		select {
		case err := <-ended:
			return false, err
		case <-time.After(time.Millisecond):
		}
		if there, _ := filepath.Glob(filepath.Join(partition, "*.log.cleaned")); len(there) > 0 {
			return true, nil
		}
	}
	t.Fatal("the process neither writes nor exits within a minute")
	return false, nil
}

// wantLocked runs a second log clean on the same directory. The second one must fail while the
// first process runs.
func wantLocked(t *testing.T, partition string, first *os.Process) {
	t.Helper()
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"log", "clean", partition}, &out, &errOut)
	if (code == 0 || !strings.Contains(errOut.String(), "lock")) &&
		first.Signal(syscall.Signal(0)) == nil {
		t.Errorf("second concurrent run: got exit code %d and %q, want a failure to lock", code, errOut.String())
	}
}
