package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestF14LeaderBuildsSidecarsWithoutScan checks that a leader hashes the keys while it validates a
// produced batch. It builds the key sidecars from these hashes, and therefore scans no segment.
func TestF14LeaderBuildsSidecarsWithoutScan(t *testing.T) {
	// The leader stores the batches as sent, or recompresses them.
	for _, codec := range []compress.Codec{compress.None, compress.LZ4} {
		fsys := vfs.NewMem()
		store := openStore(t, fsys)
		log := createLog(t, store,
			keyedSettings(func(s *topicconfig.Settings) {
				s.KeepCodec, s.Codec, s.SegmentBytes = false, codec, 10_000
			}))
		for range 12 {
			appendBatch(t, log, storetest.Batch{Keys: []string{"a", "b", "a", "", "c"},
				Value: randomText(700)}.Bytes(t))
			appendBatch(t, log, storetest.Batch{Keys: []string{"a"}}.Tombstones(t))
			fillKeyed(t, log, 20)
			store.tick(epoch0, false)
			updateSidecars(log, epoch0)
		}
		checkSidecars(t, log)
		if n := log.compaction.Sidecars.ScannedBytes.Load(); n > 0 {
			t.Errorf("%s: %d bytes were scanned", codec, n)
		}
		if read, written := log.compaction.Sidecars.ReadBytes.Load(),
			log.compaction.Sidecars.WrittenBytes.Load(); read == 0 || written == 0 {
			t.Errorf("%d bytes of sidecars read, %d written", read, written)
		}
	}
}

// TestFailedAppendsAreNotSpooled checks that a batch that is not appended adds no key hashes to the
// spool, from which the key sidecar is built. An extra hash would shift the ordinals of all later
// records.
func TestFailedAppendsAreNotSpooled(t *testing.T) {
	for seed := range seed.Sequence(t, 3) {
		random := rand.New(rand.NewPCG(seed, 0))
		fault := vfs.NewFault(vfs.NewMem())
		store := openStore(t, fault)
		log := createLog(t, store, keyedSettings(nil))
		appendBatch(t, log, storetest.Batch{Producer: 7, Keys: []string{"first", "x"},
			Value: strings.Repeat("v", 80)}.Bytes(t))
		sequence := int32(2)
		for n := range 120 {
			b := storetest.Batch{Producer: 7, Sequence: sequence,
				Keys: []string{fmt.Sprint(n), "x"}, Value: strings.Repeat("v", 80)}
			switch random.IntN(5) {
			case 0: // rejected because of its sequence number, after its keys were hashed
				b.Sequence += 5
				if _, err := log.Append(b.Bytes(t), epoch0); !errors.Is(err,
					ErrOutOfOrderSequence) {
					t.Fatal(err)
				}
			case 1: // a duplicate
				b.Sequence -= 2
				if appended, err := log.Append(b.Bytes(t), epoch0); err != nil ||
					!appended.Duplicate {
					t.Fatal(appended, err)
				}
			case 2: // rejected because its second record has no key, after the first key was hashed
				bad := storetest.Encode(t, storetest.NoProducer,
					record.Record{Key: []byte("k"), Value: []byte("v")},
					record.Record{Offset: 1, Value: []byte("v")})
				if _, err := log.Append(bad, epoch0); !errors.Is(err, record.ErrInvalidRecord) {
					t.Fatal(err)
				}
			case 3: // the disk is full after some bytes
				fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: "*.log", Times: 1, Err: syscall.ENOSPC,
					WriteBytes: random.IntN(100)})
				if _, err := log.Append(b.Bytes(t), epoch0); !errors.Is(err, ErrStorage) {
					t.Fatal(err)
				}
				fault.Clear()
			default:
				appendBatch(t, log, b.Bytes(t))
				sequence += 2
			}
			log.AdvanceHighWatermark(log.LogEnd())
			store.tick(epoch0, false)
			updateSidecars(log, epoch0)
		}
		checkSidecars(t, log)
		if n := log.compaction.Sidecars.ScannedBytes.Load(); n > 0 {
			t.Errorf("seed %d: %d bytes were scanned: a spool did not match its segment", seed, n)
		}
	}
}

// TestSpoolOnFailingDisk checks that if the disk rejects a spool, the append succeeds, and the
// cleaner scans the segment to build the key sidecar. A spool is a temporary file with the key
// hashes of the appended records, from which the sidecar is usually built.
func TestSpoolOnFailingDisk(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	store := openStore(t, fault)
	log := createLog(t, store,
		keyedSettings(func(s *topicconfig.Settings) { s.SegmentBytes = 100_000 }))
	fault.Inject(vfs.Rule{Name: "*.keys.spool.tmp", Err: syscall.ENOSPC})
	var many []string
	for i := range 700 {
		many = append(many, fmt.Sprint("key", i))
	}
	for range 3 {
		// These are more hashes than a spool keeps in memory.
		appendBatch(t, log, storetest.Batch{Keys: many, Value: strings.Repeat("v", 100)}.Bytes(t))
	}
	fault.Clear()
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
	if log.compaction.Sidecars.ScannedBytes.Load() == 0 {
		t.Error("no segment was scanned: the spool did not fail")
	}
}

// TestSidecarsOfFollowersAndMarkers checks that a follower does not hash the keys of replicated
// batches, so it scans a segment to build the segment's key sidecar. The sidecar omits the keys of
// transaction markers.
func TestSidecarsOfFollowersAndMarkers(t *testing.T) {
	leaderStore := openStore(t, vfs.NewMem())
	leader := createLog(t, leaderStore, keyedSettings(nil))
	for n := range 40 {
		id := int64(1 + n%3)
		b := storetest.Batch{Producer: id, Sequence: int32(n / 3), Keys: []string{fmt.Sprint(n)},
			Value: strings.Repeat("v", 150), Transactional: true}
		if _, err := leader.AppendVerified(b.Bytes(t), Verified{Transaction: true},
			epoch0); err != nil {
			t.Fatal(err)
		}
		if _, err := leader.AppendControl(EndTxn{ProducerID: id, Commit: n%2 == 0},
			epoch0); err != nil {
			t.Fatal(err)
		}
		leader.AdvanceHighWatermark(leader.LogEnd())
		leaderStore.tick(epoch0, false)
		updateSidecars(leader, epoch0)
	}
	checkSidecars(t, leader)
	if n := leader.compaction.Sidecars.ScannedBytes.Load(); n > 0 {
		t.Errorf("the leader scanned %d bytes", n)
	}

	store := openStore(t, vfs.NewMem())
	follower := createLog(t, store, keyedSettings(nil))
	for offset := int64(0); offset < leader.LogEnd(); {
		slice, err := leader.Read(offset, leader.LogEnd(), 4096, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batchesOf(t, slice) {
			if err := follower.AppendReplicated(b, epoch0); err != nil {
				t.Fatal(err)
			}
			offset = b.NextOffset()
		}
		slice.Release()
	}
	follower.AdvanceHighWatermark(follower.LogEnd())
	store.tick(epoch0, false)
	updateSidecars(follower, epoch0)
	checkSidecars(t, follower)
	if follower.compaction.Sidecars.ScannedBytes.Load() == 0 {
		t.Error("the follower scanned no segment")
	}
}

// TestSidecarsAfterRestart checks that after a restart there are no spools, but the salt and the
// sidecars still exist. Missing sidecars are built by scanning their segments once.
func TestSidecarsAfterRestart(t *testing.T) {
	fsys, store, log := keyedLog(t, 35)
	updateSidecars(log, epoch0)
	fillKeyed(t, log, 30)
	salt := *log.compaction.Sidecars.Salt.Load()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if left := namesWith(t, fsys, log, "spool"); len(left) > 0 {
		t.Errorf("spools left: %v", left)
	}
	made := len(namesWith(t, fsys, log, keys.Extension))

	store = openStore(t, fsys)
	log = createLog(t, store, keyedSettings(nil))
	if *log.compaction.Sidecars.Salt.Load() != salt {
		t.Error("the salt has changed")
	}
	fillKeyed(t, log, 20)
	store.tick(epoch0, false)
	updateSidecars(log, epoch0)
	checkSidecars(t, log)
	segments := keyedSegments(t, log)
	var unknown int64
	for _, h := range segments[made:] {
		unknown += h.SizeBytes()
	}
	if got := log.compaction.Sidecars.ScannedBytes.Load(); got == 0 || got > unknown {
		t.Errorf(
			"%d bytes were scanned; %d of %d segments had a sidecar, the others have %d bytes in all",
			got, made, len(segments), unknown)
	}
	scanned := log.compaction.Sidecars.ScannedBytes.Load()
	updateSidecars(log, epoch0)
	if log.compaction.Sidecars.ScannedBytes.Load() != scanned {
		t.Error("existing sidecars were built again")
	}
}

// TestLostSaltRebuildsSidecars checks that if the salt of the key hashes is lost or damaged, a new
// salt is created and every sidecar is rebuilt with it.
func TestLostSaltRebuildsSidecars(t *testing.T) {
	for name, damage := range map[string]func(fsys vfs.FS, name string) error{
		"lost": func(fsys vfs.FS, name string) error { return fsys.Remove(name) },
		"damaged": func(fsys vfs.FS, name string) error {
			return vfs.WriteFileAtomic(fsys, name, []byte("not a salt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, store, log := keyedLog(t, 35)
			updateSidecars(log, epoch0)
			salt := *log.compaction.Sidecars.Salt.Load()
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if err := damage(fsys, filepath.Join(log.dir, keys.SaltFile)); err != nil {
				t.Fatal(err)
			}
			store = openStore(t, fsys)
			log = createLog(t, store, keyedSettings(nil))
			if *log.compaction.Sidecars.Salt.Load() == salt {
				t.Fatal("the salt has not changed")
			}
			updateSidecars(log, epoch0)
			checkSidecars(t, log)
			if log.compaction.Sidecars.ScannedBytes.Load() == 0 {
				t.Error("sidecars of another salt were used")
			}
		})
	}
}

// TestDamagedSidecarsAreRebuilt checks that a damaged key sidecar is detected and rebuilt, both in
// a running process and after a start.
func TestDamagedSidecarsAreRebuilt(t *testing.T) {
	fsys, _, log := keyedLog(t, 35)
	updateSidecars(log, epoch0)
	h := keyedSegments(t, log)[1]
	name := log.compaction.Sidecars.Name(h.Base())
	whole, err := fsys.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for kind, damage := range map[string]func(c []byte) []byte{
		"header":    func(c []byte) []byte { c[40]++; return c },
		"truncated": func(c []byte) []byte { return c[:len(c)-3] },
		"empty":     func([]byte) []byte { return nil },
		"longer":    func(c []byte) []byte { return append(c, 0) },
		"of other data": func([]byte) []byte {
			return mustRead(t, fsys,
				log.compaction.Sidecars.Name(0))
		},
	} {
		for _, restarted := range []bool{false, true} {
			if restarted {
				h.Sidecar.Store(nil) // forget that it was verified, as at a start
			}
			overwrite(t, fsys, name, damage(slices.Clone(whole)))
			reader, err := log.compaction.Sidecars.OpenOrBuild(context.Background(), h.Segment,
				sidecars.Options{Background: true})
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if err := errors.Join(compareKeys(log, h, reader), reader.Close()); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
	reader, err := log.compaction.Sidecars.OpenOrBuild(context.Background(), h.Segment,
		sidecars.Options{Background: true})
	if err != nil {
		t.Fatalf("removed: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	checkSidecars(t, log)
}

func mustRead(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	content, err := fsys.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func overwrite(t testing.TB, fsys vfs.FS, name string, content []byte) {
	t.Helper()
	file, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(content, 0)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
