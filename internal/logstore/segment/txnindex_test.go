package segment

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

const txnFile = "/00000000000000000100.txnindex"

// abortedAt returns the index entry of an aborted transaction of producer 7. The transaction begins
// at offset first, and its abort marker is at offset last. No other transaction was open when the
// marker was written, so the last stable offset is last+1.
func abortedAt(first, last int64) AbortedTxn {
	return AbortedTxn{ProducerID: 7, FirstOffset: first, LastOffset: last, LastStable: last + 1}
}

// withAborted returns a segment with the offsets 100 to 199, one per batch, and one entry in the
// transaction index for every ten offsets. It also returns these entries.
func withAborted(t testing.TB, fsys vfs.FS) (*Segment, []AbortedTxn) {
	t.Helper()
	s, err := Create(fsys, "/", 100, "", Config{UnwrittenEntriesMax: 1})
	must(t, err)
	var all []AbortedTxn
	for offset := int64(100); offset < 200; offset++ {
		must(t, s.Append(batchOf(t, offset, 1, offset, 10)))
		if offset%10 == 9 {
			all = append(all, abortedAt(offset-8, offset))
			must(t, s.AddAborted(all[len(all)-1]))
		}
	}
	return s, all
}

func abortedOf(t testing.TB, s *Segment, from, below int64) (found []AbortedTxn, complete bool) {
	t.Helper()
	complete, err := s.Aborted(from, below, func(a AbortedTxn) { found = append(found, a) })
	must(t, err)
	return found, complete
}

func TestTxnIndexEntriesHaveKafkasFormat(t *testing.T) {
	want, err := hex.DecodeString("0000" + "0000000000000007" + "0000000000000065" +
		"000000000000006d" + "000000000000006e")
	must(t, err)
	entry := abortedAt(101, 109)
	if got := appendAborted(nil, entry); !bytes.Equal(got, want) || len(got) != AbortedTxnBytes {
		t.Errorf("encoded as %x, want %x", got, want)
	}
	if back, err := ParseAbortedTxn(want); err != nil || back != entry {
		t.Errorf("decoded as %+v, %v", back, err)
	}
	if _, err := ParseAbortedTxn(append([]byte{0, 1}, want[2:]...)); err == nil {
		t.Error("an entry of an unknown version was accepted")
	}
}

func TestNoTxnIndexWithoutAbortedTransactions(t *testing.T) {
	mem := vfs.NewMem()
	s, err := Create(mem, "/", 100, "", Config{})
	must(t, err)
	must(t, s.Append(batchOf(t, 100, 1, 100, 10)))
	must(t, s.Seal())
	must(t, s.Close())
	if _, err := mem.Stat(txnFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of the transaction index: %v, want not exist", err)
	}
}

// TestAbortedTransactionsAreFound checks that Aborted finds the entries before they are written,
// after they are written, and after a restart.
func TestAbortedTransactionsAreFound(t *testing.T) {
	mem := vfs.NewMem()
	s, all := withAborted(t, mem)
	check := func(stage string) {
		t.Helper()
		for from := int64(95); from < 205; from += 3 {
			for below := from; below < 210; below += 7 {
				var want []AbortedTxn
				done := false
				for _, a := range all {
					if !done && a.LastOffset >= from {
						if a.FirstOffset < below {
							want = append(want, a)
						}
						done = a.LastStable >= below
					}
				}
				got, complete := abortedOf(t, s, from, below)
				if !slices.Equal(got, want) || complete != done {
					t.Fatalf("%s: [%d, %d): %v, %t; want %v, %t", stage, from, below, got, complete,
						want, done)
				}
			}
		}
	}
	check("in memory")
	must(t, s.Sync())
	check("written")
	late := abortedAt(200, 201)
	must(t, s.Append(batchOf(t, 200, 2, 200, 10)))
	must(t, s.AddAborted(late))
	all = append(all, late)
	check("partly written")
	must(t, s.Close())
	var err error
	s, err = Open(mem.CrashClone(), "/", 100, Config{})
	must(t, err)
	check("reopened")
	if s.AbortedCount() != len(all) || s.TxnIndexDamaged() != nil || s.NeedsSeal() {
		t.Errorf("%d entries, damage %v", s.AbortedCount(), s.TxnIndexDamaged())
	}
	must(t, s.Close())
}

func TestOnlyAscendingEntriesAreAccepted(t *testing.T) {
	s, _ := withAborted(t, vfs.NewMem())
	defer func() { must(t, s.Close()) }()
	for _, bad := range []AbortedTxn{
		abortedAt(191, 199), abortedAt(150, 160), {7, 201, 205, 100}, {7, 205, 205, 206},
		{7, 201, 205, 207}, {-1, 201, 205, 206},
	} {
		if err := s.AddAborted(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestTruncateTruncatesTheTxnIndex(t *testing.T) {
	for _, synced := range []bool{false, true} {
		for offset := int64(100); offset <= 200; offset++ {
			mem := vfs.NewMem()
			s, all := withAborted(t, mem)
			if synced {
				must(t, s.Seal())
			}
			must(t, s.Truncate(offset))
			want := all[:(offset-100)/10]
			got, _ := abortedOf(t, s, 0, 1000)
			if !slices.Equal(got, want) {
				t.Fatalf("truncated to %d: %v, want %v", offset, got, want)
			}
			must(t, s.Append(batchOf(t, offset, 5, 300, 10)))
			must(t, s.AddAborted(abortedAt(offset, offset+4)))
			must(t, s.Close())
			s, err := Open(mem, "/", 100, Config{})
			must(t, err)
			got, _ = abortedOf(t, s, 0, 1000)
			if !slices.Equal(got, append(want[:len(want):len(want)], abortedAt(offset, offset+4))) {
				t.Fatalf("truncated to %d and reopened: %v", offset, got)
			}
			must(t, s.Close())
		}
	}
}

// TestDamagedTxnIndexIsReported checks that a damaged transaction index is ignored, and
// TxnIndexDamaged reports it until ResetAborted has replaced the entries.
func TestDamagedTxnIndexIsReported(t *testing.T) {
	reference := vfs.NewMem()
	s, all := withAborted(t, reference)
	must(t, s.Close())
	good, err := reference.ReadFile(txnFile)
	must(t, err)
	for name, bad := range map[string][]byte{
		"incomplete last entry": good[:len(good)-5],
		"zeros":                 make([]byte, len(good)),
		"unknown version":       append([]byte{0, 3}, good[2:]...),
		"entries in the wrong order": slices.Concat(good[AbortedTxnBytes:2*AbortedTxnBytes],
			good[:AbortedTxnBytes]),
		"entry beyond the end": appendAborted(slices.Clone(good), abortedAt(200, 300)),
		"duplicate entry":      slices.Concat(good[:AbortedTxnBytes], good),
	} {
		mem := reference.CrashClone()
		must(t, vfs.WriteFileAtomic(mem, txnFile, bad))
		s, err := Open(mem, "/", 100, Config{})
		must(t, err)
		if s.TxnIndexDamaged() == nil || s.AbortedCount() != 0 {
			t.Errorf("%s: %d entries, damage %v", name, s.AbortedCount(), s.TxnIndexDamaged())
		}
		must(t, s.ResetAborted(all))
		if s.TxnIndexDamaged() != nil || !s.NeedsSeal() {
			t.Errorf("%s: rebuilt, damage %v", name, s.TxnIndexDamaged())
		}
		must(t, s.Close())
		if content, err := mem.ReadFile(txnFile); err != nil || !bytes.Equal(content, good) {
			t.Errorf("%s: the file was not rebuilt: %v", name, err)
		}
	}
}

// TestFailedTxnIndexWriteDoesNotFailAppends checks that a failed write of the transaction index
// does not fail an append, because the entries stay in memory (KAFKA-7866, KAFKA-10778).
func TestFailedTxnIndexWriteDoesNotFailAppends(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	s, all := withAborted(t, fault)
	fault.Inject(vfs.Rule{Op: vfs.OpCreate, Name: "*.txnindex", Times: 1})
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Name: "*.txnindex", Times: 1, WriteBytes: 11})
	must(t, s.Sync()) // fails to create the file
	must(t, s.Sync()) // writes only 11 bytes of the entries
	must(t, s.Append(batchOf(t, 200, 1, 200, 10)))
	if got, _ := abortedOf(t, s, 0, 1000); !slices.Equal(got, all) || !s.NeedsSeal() {
		t.Errorf("entries %v, want %v", got, all)
	}
	must(t, s.Close())
	s, err := Open(mem.CrashClone(), "/", 100, Config{})
	must(t, err)
	if got, _ := abortedOf(t, s, 0, 1000); !slices.Equal(got, all) {
		t.Errorf("after a restart: %v, want %v", got, all)
	}
	must(t, s.Close())
}

// TestTxnIndexSurvivesACrash checks that the entries of a sealed segment's transaction index
// survive any crash. Recover removes the entries, because only the log can rebuild them.
func TestTxnIndexSurvivesACrash(t *testing.T) {
	for seed := range seed.Sequence(t, 50) {
		mem := vfs.NewMem()
		s, all := withAborted(t, mem)
		must(t, s.Seal())
		crashed := mem.CrashClonePartly(seed)
		opened, err := Open(crashed, "/", 100, Config{})
		must(t, err)
		if got, _ := abortedOf(t, opened, 0, 1000); !slices.Equal(got, all) {
			t.Fatalf("seed %d: entries %v", seed, got)
		}
		must(t, opened.Close())
		recovered, _, err := Recover(crashed, "/", 100, Config{}, nil)
		must(t, err)
		if recovered.AbortedCount() != 0 {
			t.Fatalf("seed %d: Recover kept %d entries", seed, recovered.AbortedCount())
		}
		must(t, recovered.ResetAborted(all))
		must(t, recovered.Close())
		opened, err = Open(crashed.CrashClone(), "/", 100, Config{})
		must(t, err)
		if got, _ := abortedOf(t, opened, 0, 1000); !slices.Equal(got, all) {
			t.Fatalf("seed %d: rebuilt entries %v", seed, got)
		}
		must(t, opened.Close())
		must(t, s.Close())
	}
}

// TestTxnIndexEqualsList checks that the transaction index returns the same transactions as a list.
// It has more entries than one block, and some transactions are long, which makes the last stable
// offset advance late.
func TestTxnIndexEqualsList(t *testing.T) {
	random := newRandom(t)
	mem := vfs.NewMem()
	s, err := Create(mem, "/", 0, "", Config{})
	must(t, err)
	var all []AbortedTxn
	stable, offset := int64(0), int64(0)
	for range 1500 {
		first := max(stable, offset-random.Int64N(30))
		offset += 1 + random.Int64N(10)
		if random.IntN(4) > 0 {
			stable = offset + 1
		}
		all = append(all, AbortedTxn{random.Int64N(5), first, offset, stable})
		must(t, s.Append(batchOf(t, offset, 1, 1, 1)))
		must(t, s.AddAborted(all[len(all)-1]))
		if random.IntN(300) == 0 {
			must(t, s.Sync())
		}
		offset++
	}
	checkAborted(t, s, all, offset, random)
	must(t, s.Seal())
	checkAborted(t, s, all, offset, random)
	must(t, s.Close())
}

func checkAborted(t *testing.T, s *Segment, all []AbortedTxn, end int64, random *rand.Rand) {
	t.Helper()
	for range 300 {
		from := random.Int64N(end)
		below := from + random.Int64N(end-from)
		needed := map[string]bool{} // transactions that overlap [from, below)
		for _, a := range all {
			if a.LastOffset >= from && a.FirstOffset < below {
				needed[fmt.Sprint(a)] = true
			}
		}
		got, complete := abortedOf(t, s, from, below)
		for _, a := range got {
			if !needed[fmt.Sprint(a)] {
				t.Fatalf("[%d, %d): %+v does not overlap", from, below, a)
			}
			delete(needed, fmt.Sprint(a))
		}
		for missing := range needed {
			t.Fatalf("[%d, %d): %s is missing, complete: %t", from, below, missing, complete)
		}
	}
}

func FuzzTxnIndex(f *testing.F) {
	mem := vfs.NewMem()
	s, _ := withAborted(f, mem)
	must(f, s.Close())
	good, err := mem.ReadFile(txnFile)
	must(f, err)
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := mem.CrashClone()
		must(t, vfs.WriteFileAtomic(fsys, txnFile, content))
		s, err := Open(fsys, "/", 100, Config{})
		must(t, err)
		last := AbortedTxn{}
		_, err = s.Aborted(0, 1<<60, func(a AbortedTxn) {
			if !a.valid(100, 200) || last.LastOffset > 0 && !a.follows(last) {
				t.Errorf("%+v after %+v", a, last)
			}
			last = a
		})
		must(t, errors.Join(err, s.Close()))
	})
}
