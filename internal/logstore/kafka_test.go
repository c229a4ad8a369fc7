package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// kafkaDirectories is the folder with data directories written by Apache Kafka. Its README
// describes how they were made.
const kafkaDirectories = "testdata/kafka-4.3.1"

// kafkaMem returns an in-memory copy of a data directory written by Kafka.
func kafkaMem(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	root := filepath.Join(kafkaDirectories, name)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return mem.MkdirAll(filepath.Join(dataDir, relative))
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(mem, filepath.Join(dataDir, relative), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// kafkaState is the state of a partition as reported by Kafka's clients.
type kafkaState struct {
	id                             PartitionID
	start, stable, end             int64
	epoch                          int32
	producers                      []string
	readUncommitted, readCommitted []string
}

// kafkaStates reads the file clean.txt or killed.txt, which contains the state of each partition in
// the data directory.
func kafkaStates(t *testing.T, name string) (all []kafkaState) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(kafkaDirectories, name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "partition":
			var p kafkaState
			var dir string
			if _, err := fmt.Sscanf(rest, "%s start %d stable %d end %d epoch %d", &dir, &p.start,
				&p.stable, &p.end, &p.epoch); err != nil {
				t.Fatal(err)
			}
			p.id, _ = datadir.ParsePartition(dir)
			all = append(all, p)
		case "producer":
			all[len(all)-1].producers = append(all[len(all)-1].producers, rest)
		case "uncommitted":
			all[len(all)-1].readUncommitted = append(all[len(all)-1].readUncommitted, rest)
		case "committed":
			all[len(all)-1].readCommitted = append(all[len(all)-1].readCommitted, rest)
		}
	}
	return all
}

// TestOpenDirectoryWrittenByKafka checks that a store opens a data directory written by Kafka,
// whether Kafka was stopped cleanly or killed. It returns the records that Kafka's own consumers
// read, with the same offsets, leader epoch, producers and open transactions. Appends continue at
// the log end, and all records still exist after a restart.
func TestOpenDirectoryWrittenByKafka(t *testing.T) {
	for _, name := range []string{"clean", "killed"} {
		t.Run(name, func(t *testing.T) {
			mem := kafkaMem(t, name)
			refreshProducers(t, mem)
			store := openStore(t, mem)
			if offline := store.Offline(); len(offline) > 0 {
				t.Fatalf("offline: %v", offline)
			}
			partitions := kafkaStates(t, name)
			ends := map[PartitionID]int64{}
			for _, p := range partitions {
				log := store.Log(p.id)
				log.AdvanceHighWatermark(log.LogEnd())
				compareWithKafka(t, log, p)
				ends[p.id] = continueAppending(t, log, p)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			problems, err := inspect.Verify(mem, []string{dataDir}, inspect.VerifyOptions{}, &out)
			if err != nil || problems > 0 {
				t.Errorf("verify: %v\n%s", err, out.String())
			}
			store = openStore(t, mem)
			for _, p := range partitions {
				log := store.Log(p.id)
				if log.LogEnd() != ends[p.id] {
					t.Errorf("%s ends at %d after a restart, want %d", p.id, log.LogEnd(),
						ends[p.id])
				}
				if got := recordsOf(t, log, p.end, false); !slices.Equal(got, p.readUncommitted) {
					t.Errorf("%s after a restart: %d records, want %d", p.id, len(got),
						len(p.readUncommitted))
				}
			}
		})
	}
}

// refreshProducers sets each producer's last-seen time to now in all producer snapshots. Otherwise
// a start would expire the producers, which have been idle for more than a day.
func refreshProducers(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	for _, p := range []string{"codecs-0", "transactions-0", "compacted-0"} {
		dir := filepath.Join(dataDir, p)
		files, err := swap.List(mem, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Kind != swap.SnapshotSuffix {
				continue
			}
			content, err := mem.ReadFile(filepath.Join(dir, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := producer.Decode(content, f.Base); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			be, table := binary.BigEndian, crc32.MakeTable(crc32.Castagnoli)
			for i := range int(be.Uint32(content[6:])) {
				be.PutUint64(content[10+46*i+26:], uint64(time.Now().UnixMilli()))
			}
			be.PutUint32(content[2:], crc32.Checksum(content[6:], table))
			if err := vfs.WriteFileAtomic(mem, filepath.Join(dir, f.Name), content); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func compareWithKafka(t *testing.T, log *Log, p kafkaState) {
	t.Helper()
	if log.LogStart() != p.start || log.LogEnd() != p.end || log.LastStable() != p.stable ||
		log.LeaderEpoch() != p.epoch {
		t.Errorf("%s: start %d, stable %d, end %d, epoch %d; Kafka has %+v", p.id, log.LogStart(),
			log.LastStable(), log.LogEnd(),
			log.LeaderEpoch(), []any{p.start, p.stable, p.end, p.epoch})
	}
	var producers []string
	for _, known := range log.mu.producers.Producers() {
		producers = append(producers,
			fmt.Sprintf("%d epoch %d sequence %d coordinator %d open %d", known.ID, known.Epoch,
				known.LastSequence, known.CoordinatorEpoch, known.TxnFirst))
	}
	if !slices.Equal(producers, p.producers) {
		t.Errorf("%s: producers\n%s\nKafka has\n%s", p.id, strings.Join(producers, "\n"),
			strings.Join(p.producers, "\n"))
	}
	for _, c := range []struct {
		committed bool
		want      []string
	}{{false, p.readUncommitted}, {true, p.readCommitted}} {
		got := recordsOf(t, log, p.end, c.committed)
		for i := range max(len(got), len(c.want)) {
			if i >= len(got) || i >= len(c.want) || got[i] != c.want[i] {
				t.Errorf("%s, committed %v: record %d of %d differs from the %d that Kafka read\n%v\n%v",
					p.id, c.committed, i, len(got), len(c.want),
					got[min(i, len(got)):min(i+1, len(got))],
					c.want[min(i, len(c.want)):min(i+1, len(c.want))])
				break
			}
		}
	}
}

// recordsOf returns a log's records below an offset, in the format of Fill.java. If committed is
// true, it instead returns the records below the last stable offset, without the records of aborted
// transactions.
func recordsOf(t *testing.T, log *Log, below int64, committed bool) (lines []string) {
	t.Helper()
	read := log.Read
	if committed {
		below, read = log.LastStable(), log.ReadCommitted
	}
	for offset := log.LogStart(); offset < below; {
		slice, err := read(offset, below, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batchesOf(t, slice) {
			aborted := slices.ContainsFunc(slice.Aborted, func(a segment.AbortedTxn) bool {
				return a.ProducerID == b.ProducerID() && b.Transactional() &&
					a.FirstOffset <= b.BaseOffset() && b.BaseOffset() <= a.LastOffset
			})
			if !b.Control() && !aborted {
				err := b.Records(1<<20, func(r *record.Record) error {
					if r.Offset >= log.LogStart() {
						lines = append(lines, lineOf(r))
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			offset = b.NextOffset()
		}
		if slice.Length == 0 {
			t.Fatalf("read nothing at %d of %d", offset, below)
		}
		slice.Release()
	}
	return lines
}

func lineOf(r *record.Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return `"` + string(b) + `"`
	}
	line := fmt.Sprintf("%d %d %s %s", r.Offset, r.Timestamp, text(r.Key), text(r.Value))
	for _, h := range r.Headers {
		line += fmt.Sprintf(" %s=%s", h.Key, text(h.Value))
	}
	return line
}

// continueAppending appends to the log as the leader of a later epoch. Each producer continues its
// sequence, and each open transaction is aborted. It returns the log end.
func continueAppending(t *testing.T, log *Log, p kafkaState) int64 {
	t.Helper()
	if err := log.Lead(p.epoch + 1); err != nil {
		t.Fatal(err)
	}
	for _, known := range log.mu.producers.Producers() {
		id := known.ID
		if id == 0 {
			continue // storetest.Batch treats producer id 0 as no producer
		}
		if known.TxnFirst != producer.NoTransaction {
			end := EndTxn{ProducerID: id, ProducerEpoch: known.Epoch + 1,
				CoordinatorEpoch: known.CoordinatorEpoch + 1, Version: 2}
			if _, err := log.AppendControl(end, time.Now()); err != nil {
				t.Errorf("%s: abort of producer %d: %v", p.id, id, err)
			}
			continue
		}
		next := storetest.Batch{Producer: id, Epoch: known.Epoch,
			Sequence: (known.LastSequence + 1) & math.MaxInt32,
			Keys:     []string{"later"}}
		if _, err := log.Append(next.Bytes(t), time.Now()); err != nil {
			t.Errorf("%s: next batch of producer %d: %v", p.id, id, err)
		}
		if again, err := log.Append(next.Bytes(t), time.Now()); err != nil || !again.Duplicate {
			t.Errorf("%s: repeated batch of producer %d: %v, %v", p.id, id, again, err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if log.LastStable() != log.LogEnd() {
		t.Errorf("%s: stable up to %d of %d, and no transaction is open", p.id, log.LastStable(),
			log.LogEnd())
	}
	return log.LogEnd()
}
