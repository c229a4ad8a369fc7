package inspect

import (
	"bytes"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

const txnFile = "/p-0/00000000000000000003.txnindex"

// txnPartition returns a partition with two segments. Producer 7 has two aborted transactions, with
// the offsets [0, 4] and [6, 7]. Producer 8 has a committed transaction with the offsets [1, 5].
// All markers are in the second segment.
func txnPartition(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/p-0"))
	sequences := map[int64]int32{}
	data := func(offset, producer int64) record.Batch {
		builder := record.NewBuilder(compress.None, compress.LevelDefault)
		builder.Reset(record.Identity{BaseOffset: offset, ProducerID: producer,
			BaseSequence: sequences[producer], Transactional: true})
		sequences[producer]++
		builder.Add(&record.Record{Offset: offset, Timestamp: 1000 + offset, Key: []byte("k")})
		built, err := builder.Build(nil)
		must(t, err)
		return built
	}
	marker := func(offset, producer int64, kind record.ControlType) record.Batch {
		built, err := record.AppendMarker(nil,
			record.Identity{BaseOffset: offset, ProducerID: producer}, 1000+offset,
			record.Control{Type: kind})
		must(t, err)
		return built
	}
	first, err := segment.Create(mem, "/p-0", 0, "", segment.Config{})
	must(t, err)
	for offset, producer := range []int64{7, 8, 7} {
		must(t, first.Append(data(int64(offset), producer)))
	}
	must(t, first.Seal())
	must(t, first.Close())
	second, err := segment.Create(mem, "/p-0", 3, "", segment.Config{})
	must(t, err)
	for _, b := range []record.Batch{
		data(3, 8), marker(4, 7, record.ControlAbort), marker(5, 8, record.ControlCommit),
		data(6, 7), marker(7, 7, record.ControlAbort),
		marker(8, 9, record.ControlAbort), // ends a transaction of producer 9 that has no data
	} {
		must(t, second.Append(b))
	}
	must(t, second.AddAborted(segment.AbortedTxn{ProducerID: 7, FirstOffset: 0, LastOffset: 4,
		LastStable: 1}))
	must(t, second.AddAborted(segment.AbortedTxn{ProducerID: 7, FirstOffset: 6, LastOffset: 7,
		LastStable: 8}))
	must(t, second.Seal())
	must(t, second.Close())
	return mem
}

func TestDumpPrintsTheTransactionIndex(t *testing.T) {
	mem := txnPartition(t)
	want := txnFile +
		"\naborted producer=7 offsets=0-4 lastStable=1\naborted producer=7 offsets=6-7 lastStable=8\n"
	if got := dump(t, mem, DumpOptions{}, txnFile); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	want = `{"file":"` + txnFile +
		`","producerId":7,"firstOffset":0,"lastOffset":4,"lastStableOffset":1}` + "\n"
	if got := dump(t, mem, DumpOptions{JSON: true}, txnFile); !strings.HasPrefix(got, want) {
		t.Errorf("got:\n%s\nwant as first line:\n%s", got, want)
	}
}

func TestVerifyChecksTheTransactionIndex(t *testing.T) {
	good, err := txnPartition(t).ReadFile(txnFile)
	must(t, err)
	edited := func(offset int, to byte) []byte {
		changed := bytes.Clone(good)
		changed[offset] = to
		return changed
	}
	for name, test := range map[string]struct {
		content []byte
		want    string // part of the problem; empty if no problem is expected
	}{
		"unchanged": {good, ""},
		"no file": {nil,
			"no entry for the aborted transaction of producer 7, offsets 0 to 4"},
		"missing entry": {good[:segment.AbortedTxnBytes],
			"no entry for the aborted transaction of producer 7, offsets 6 to 7"},
		"incomplete entry":         {good[:50], "the file ends within an entry"},
		"another version":          {edited(1, 3), "no marker at offset -1"},
		"another producer":         {edited(9, 9), "is of producer 7, not 9"},
		"another first offset":     {edited(17, 2), "begins at offset 0, not 2"},
		"committed transaction":    {edited(25, 5), "the marker at offset 5 commits"},
		"no marker":                {edited(25, 3), "no marker at offset 3"},
		"decreasing stable offset": {edited(33, 9), "does not ascend"},
		"entries in the wrong order": {append(bytes.Clone(good[34:]), good[:34]...),
			"does not ascend"},
		"entry after the last batch": {append(bytes.Clone(good),
			append(bytes.Clone(good[34:59]), 99, 0, 0, 0, 0, 0, 0, 0, 100)...),
			"no marker at offset 99"},
	} {
		mem := txnPartition(t)
		if test.content == nil {
			must(t, mem.Remove(txnFile))
		} else {
			must(t, vfs.WriteFileAtomic(mem, txnFile, test.content))
		}
		problems, out := verify(t, mem, "/p-0")
		if (problems == 0) != (test.want == "") || !strings.Contains(out, test.want) {
			t.Errorf("%s: got %d problems, want %q:\n%s", name, problems, test.want, out)
		}
	}
}

// TestVerifyOfAnAbortedTransactionThatWasCleaned checks a transaction of which cleaning has kept
// only an empty batch, for the producer's state, and the marker. If only empty batches of the
// transaction remain, the entry in the transaction index may be missing. If a record of the
// transaction remains, the entry must exist.
func TestVerifyOfAnAbortedTransactionThatWasCleaned(t *testing.T) {
	for _, test := range []struct {
		records  []int // number of records in each batch
		entry    bool
		problems int
	}{
		{[]int{0}, false, 0}, {[]int{0}, true, 0}, {[]int{0, 0}, false, 0},
		{[]int{0, 1}, false, 1}, {[]int{1, 0}, false, 1}, {[]int{1, 0}, true, 0},
	} {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("/p-0"))
		s, err := segment.Create(mem, "/p-0", 0, "", segment.Config{})
		must(t, err)
		end := int64(len(test.records))
		for i, records := range test.records {
			builder := record.NewBuilder(compress.None, compress.LevelDefault)
			builder.Reset(record.Identity{BaseOffset: int64(i), ProducerID: 16,
				BaseSequence: int32(i), Transactional: true})
			if records > 0 {
				builder.Add(&record.Record{Offset: int64(i), Timestamp: 1000, Key: []byte("k")})
			}
			built, err := builder.Build(nil)
			must(t, err)
			must(t, s.Append(built))
		}
		marker, err := record.AppendMarker(nil, record.Identity{BaseOffset: end, ProducerID: 16},
			1000, record.Control{Type: record.ControlAbort})
		must(t, err)
		must(t, s.Append(marker))
		if test.entry {
			must(t, s.AddAborted(segment.AbortedTxn{ProducerID: 16, FirstOffset: 0, LastOffset: end,
				LastStable: end + 1}))
		}
		must(t, s.Seal())
		must(t, s.Close())
		if problems, out := verify(t, mem, "/p-0"); problems != test.problems {
			t.Errorf("%+v: got %d problems, want %d:\n%s", test, problems, test.problems, out)
		}
	}
}

// TestVerifyOfASegmentAlone verifies only the second segment. Transactions that began in the first
// segment cause no problem.
func TestVerifyOfASegmentAlone(t *testing.T) {
	if problems, out := verify(t, txnPartition(t), "/p-0/00000000000000000003.log"); problems != 0 {
		t.Errorf("got %d problems, want 0:\n%s", problems, out)
	}
}
