package inspect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// batchSpec describes a batch of one record.
type batchSpec struct {
	offset      int64
	producer    int64 // 0 if the batch has no producer
	epoch       int16
	sequence    int32
	leader      int32
	txn         bool
	marker      bool // true if the batch is an abort marker
	coordinator int32
}

func (w batchSpec) batch(t testing.TB) record.Batch {
	t.Helper()
	id := record.Identity{BaseOffset: w.offset, LeaderEpoch: w.leader, ProducerID: -1,
		ProducerEpoch: -1, BaseSequence: -1, Transactional: w.txn}
	if w.producer != 0 {
		id.ProducerID, id.ProducerEpoch, id.BaseSequence = w.producer, w.epoch, w.sequence
	}
	if w.marker {
		built, err := record.AppendMarker(nil, id, 1000+w.offset,
			record.Control{Type: record.ControlAbort, CoordinatorEpoch: w.coordinator})
		must(t, err)
		return built
	}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(id)
	builder.Add(&record.Record{Offset: w.offset, Timestamp: 1000 + w.offset, Key: []byte("k")})
	built, err := builder.Build(nil)
	must(t, err)
	return built
}

// logOf writes batches to one segment in /p-0 with base offset 0. aborted are the entries of the
// segment's transaction index.
func logOf(t testing.TB, batches []batchSpec, aborted ...segment.AbortedTxn) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/p-0"))
	s, err := segment.Create(mem, "/p-0", 0, "", segment.Config{})
	must(t, err)
	for _, w := range batches {
		must(t, s.Append(w.batch(t)))
	}
	for _, a := range aborted {
		must(t, s.AddAborted(a))
	}
	must(t, s.Seal())
	must(t, s.Close())
	return mem
}

// wantVerify verifies /p-0. It expects exactly one problem that contains the text want, or no
// problem if want is empty.
func wantVerify(t *testing.T, mem *vfs.Mem, want string) {
	t.Helper()
	problems, out := verify(t, mem, "/p-0")
	if (problems == 0) != (want == "") || !strings.Contains(out, want) || problems > 1 {
		t.Errorf("got %d problems, want %q:\n%s", problems, want, out)
	}
}

func TestVerifyChecksTheRulesOfProducers(t *testing.T) {
	for name, c := range map[string]struct {
		batches []batchSpec
		want    string
	}{
		"consecutive": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 1, producer: 7, sequence: 5}}, ""},
		"wraps": {[]batchSpec{{offset: 0, producer: 7,
			sequence: math.MaxInt32}, {offset: 1, producer: 7}}, ""},
		"two producers": {[]batchSpec{{offset: 0, producer: 7},
			{offset: 1, producer: 8, sequence: 3}, {offset: 2, producer: 7, sequence: 1}}, ""},
		"repeated sequence": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 1, producer: 7, sequence: 4}},
			"offset 1: producer 7, epoch 0: sequence 4, want 5"},
		"gap": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 1, producer: 7, sequence: 6}},
			"sequence 6, want 5; 0 offsets are missing"},
		"gap of removed batches": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 3, producer: 7, sequence: 7}}, ""},
		"gap larger than the removed batches": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 3, producer: 7, sequence: 8}}, "want 5; 2 offsets are missing"},
		"gap without removed batches between": {[]batchSpec{{offset: 5, producer: 7, sequence: 4},
			{offset: 6, producer: 7, sequence: 7}}, "want 5; 0 offsets"},
		"new epoch": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 1, producer: 7, epoch: 1}}, ""},
		"new epoch without sequence 0": {[]batchSpec{{offset: 0, producer: 7, sequence: 4},
			{offset: 1, producer: 7, epoch: 1, sequence: 5}}, "sequence 5, want 0"},
		"decreasing epoch": {[]batchSpec{{offset: 0, producer: 7, epoch: 2},
			{offset: 1, producer: 7, epoch: 1, sequence: 1}},
			"epoch of producer 7 decreases from 2 to 1"},
		"no sequence": {[]batchSpec{{offset: 0, producer: 7, sequence: -1}},
			"producer 7 has base sequence -1"},
		"transaction without producer": {[]batchSpec{{offset: 0, txn: true}},
			"without a producer id"},
		"outside of a transaction": {[]batchSpec{{offset: 0, producer: 7, txn: true},
			{offset: 1, producer: 7, sequence: 1}},
			"appends outside its transaction, open since offset 0"},
		"no leader epochs": {[]batchSpec{{offset: 0, leader: -1},
			{offset: 1, leader: -1}, {offset: 2}}, ""},
		"decreasing leader epoch": {[]batchSpec{{offset: 0, leader: 3},
			{offset: 1, leader: 2}}, "leader epoch decreases from 3 to 2"},
	} {
		t.Run(name, func(t *testing.T) { wantVerify(t, logOf(t, c.batches), c.want) })
	}
}

func TestVerifyChecksTheRulesOfMarkers(t *testing.T) {
	data, more := batchSpec{offset: 0, producer: 7, txn: true},
		batchSpec{offset: 2, producer: 7, sequence: 1, txn: true}
	first, second := segment.AbortedTxn{ProducerID: 7, LastOffset: 1, LastStable: 2},
		segment.AbortedTxn{ProducerID: 7, FirstOffset: 2, LastOffset: 3, LastStable: 4}
	marker := func(offset int64, epoch int16, coordinator int32) batchSpec {
		return batchSpec{offset: offset, producer: 7, epoch: epoch, marker: true,
			coordinator: coordinator}
	}
	wantVerify(t, logOf(t, []batchSpec{data, marker(1, 0, 5), more, marker(3, 0, 5)}, first,
		second),
		"")
	wantVerify(t, logOf(t, []batchSpec{data, marker(1, 0, 5), more, marker(3, 0, 4)}, first,
		second),
		"coordinator epoch of producer 7 decreases from 5 to 4")
	more.epoch, more.sequence = 1, 0
	// Markers increment the producer epoch (KIP-890).
	wantVerify(t, logOf(t, []batchSpec{data, marker(1, 1, 5), more, marker(3, 2, 5)}, first,
		second),
		"")
	first.LastStable = 1
	wantVerify(t, logOf(t, []batchSpec{data, marker(1, 1, 5), more, marker(3, 2, 5)}, first,
		second),
		"the last stable offset after the marker is 2, not 1")
}

// snapshotOf returns the content of a snapshot file with one entry and a valid checksum.
func snapshotOf(l snapshotLine) []byte {
	be := binary.BigEndian
	out := be.AppendUint32([]byte{0, 1, 0, 0, 0, 0}, 1)
	out = be.AppendUint64(out, uint64(l.ProducerID))
	out = be.AppendUint16(out, uint16(l.ProducerEpoch))
	out = be.AppendUint32(out, uint32(l.LastSequence))
	out = be.AppendUint64(out, uint64(l.LastOffset))
	out = be.AppendUint32(out, uint32(l.OffsetDelta))
	out = be.AppendUint64(out, uint64(l.Timestamp))
	out = be.AppendUint32(out, uint32(l.CoordinatorEpoch))
	out = be.AppendUint64(out, uint64(l.TxnFirstOffset))
	be.PutUint32(out[2:], crc32.Checksum(out[6:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

func TestVerifyComparesSnapshotsWithTheLog(t *testing.T) {
	batches := []batchSpec{{offset: 0, producer: 7, sequence: 4, txn: true},
		{offset: 1, producer: 7, sequence: 5, txn: true}}
	right := snapshotLine{ProducerID: 7, LastSequence: 5, LastOffset: 1, CoordinatorEpoch: -1}
	// cleaned is a log from which cleaning has removed the last batch of producer 7.
	cleaned := []batchSpec{{offset: 0, producer: 7, sequence: 4, txn: true},
		{offset: 9, producer: 9}}
	for name, c := range map[string]struct {
		batches []batchSpec
		asOf    int64
		change  func(*snapshotLine)
		bytes   func([]byte) []byte
		want    string
	}{
		"valid": {},
		"of an earlier offset": {asOf: 1,
			change: func(l *snapshotLine) { l.LastOffset, l.LastSequence = 0, 4 }},
		"checksum": {bytes: func(b []byte) []byte { b[20]++; return b },
			want: "invalid producer snapshot: checksum"},
		"truncated": {bytes: func(b []byte) []byte { return b[:9] },
			want: "invalid producer snapshot: 9 bytes"},
		"another version": {bytes: func(b []byte) []byte { b[1] = 2; return b },
			want: "version 2"},
		"above the end": {asOf: 3,
			want: "producer state as of offset 3, but the log ends at 2"},
		"sequence": {change: func(l *snapshotLine) { l.LastSequence = 6 },
			want: "sequence 6 and offset delta 0 at offset 1"},
		"epoch": {change: func(l *snapshotLine) { l.ProducerEpoch = 1 },
			want: "epoch 1, but the log has 0"},
		"stale": {change: func(l *snapshotLine) { l.LastOffset = 0 },
			want: "last offset 0, but in the log 1"},
		"offset above the end": {change: func(l *snapshotLine) { l.LastOffset = 2 },
			want: "last offset 2 and transaction at 0, but the log ended at 2"},
		"no transaction": {change: func(l *snapshotLine) { l.TxnFirstOffset = -1 },
			want: "transaction open since offset -1, but in the log since 0"},
		"unknown coordinator epoch": {change: func(l *snapshotLine) { l.CoordinatorEpoch = 3 },
			want: "coordinator epoch 3, but the log has -1"},
		"unknown producer": {batches: batches[:1], asOf: 1,
			change: func(l *snapshotLine) { *l = snapshotLine{ProducerID: 8, TxnFirstOffset: -1} },
			want:   "producer 8: the log contains no batch of this producer"},
		"removed batches": {batches: cleaned, asOf: 10,
			change: func(l *snapshotLine) { l.LastOffset, l.LastSequence = 3, 6 }},
		"producer with removed batches": {batches: cleaned, asOf: 10,
			change: func(l *snapshotLine) { l.ProducerID, l.TxnFirstOffset = 8, -1 }},
		"epoch below the log's": {batches: []batchSpec{{offset: 2, producer: 7, epoch: 3}},
			asOf: 3, change: func(l *snapshotLine) { l.TxnFirstOffset = -1 },
			want: "epoch 0, but the log has 3"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.batches == nil {
				c.batches = batches
			}
			c.asOf = cmp.Or(c.asOf, 2)
			line := right
			if c.change != nil {
				c.change(&line)
			}
			content := snapshotOf(line)
			if c.bytes != nil {
				content = c.bytes(content)
			}
			mem := logOf(t, c.batches)
			must(t, vfs.WriteFileAtomic(mem, "/p-0/"+segment.Name(c.asOf, snapshotExtension, ""),
				content))
			problems, out := verify(t, mem, "/p-0")
			if (problems == 0) != (c.want == "") || !strings.Contains(out, c.want) {
				t.Errorf("got %d problems, want %q:\n%s", problems, c.want, out)
			}
		})
	}
}

// TestVerifyAcceptsUnsavedLeaderEpochs checks that the epoch file of a running or killed broker may
// lack later epochs that start above the recovery point.
func TestVerifyAcceptsUnsavedLeaderEpochs(t *testing.T) {
	batches := []batchSpec{{offset: 0, leader: 2}, {offset: 1, leader: 4}, {offset: 2, leader: 5}}
	for name, c := range map[string]struct {
		epochs, points string
		problems       int
	}{
		"above the recovery point": {"0\n1\n2 0\n", "0\n1\np 0 1\n", 0},
		"no epoch saved":           {"0\n0\n", "0\n1\np 0 0\n", 0},
		"below the recovery point": {"0\n1\n2 0\n", "0\n1\np 0 2\n", 1},
		"earlier than the file's":  {"0\n2\n2 0\n6 1\n", "0\n1\np 0 1\n", 2},
		"no recovery point":        {"0\n1\n2 0\n", "", 2},
	} {
		mem := logOf(t, batches)
		must(t, vfs.WriteFileAtomic(mem, "/p-0/"+epochFile, []byte(c.epochs)))
		if c.points != "" {
			must(t, vfs.WriteFileAtomic(mem, "/"+recoveryFile, []byte(c.points)))
		}
		if problems, out := verify(t, mem, "/p-0"); problems != c.problems {
			t.Errorf("%s: got %d problems, want %d:\n%s", name, problems, c.problems, out)
		}
	}
}

func TestVerifyComparesLeaderEpochsWithTheLog(t *testing.T) {
	batches := []batchSpec{{offset: 0, leader: 2}, {offset: 1, leader: 2}, {offset: 2, leader: 5}}
	for name, c := range map[string]struct{ content, want string }{
		"valid": {"0\n2\n2 0\n5 2\n", ""},
		// The leader of epoch 6 has not appended anything yet.
		"empty epoch":    {"0\n3\n2 0\n5 2\n6 3\n", ""},
		"advanced start": {"0\n2\n2 1\n5 2\n", ""},
		"another epoch": {"0\n2\n3 0\n5 2\n",
			"offset 0: leader epoch 2, but leader-epoch-checkpoint has 3 at this offset"},
		"none": {"0\n0\n",
			"offset 0: leader epoch 2, but leader-epoch-checkpoint has none"},
		"above the end": {"0\n3\n2 0\n5 2\n6 4\n",
			"epoch 6 from offset 4, but the log ends at 3"},
		"descending": {"0\n2\n5 0\n2 2\n",
			"invalid checkpoint: epoch 2 from offset 2 does not ascend"},
		"truncated": {"0\n2\n2 0\n",
			"invalid checkpoint: want version 0 and the number of lines"},
		"not numbers": {"0\n1\nx y\n", `invalid checkpoint: line "x y"`},
		"empty":       {"", "offset 0: leader epoch 2, but leader-epoch-checkpoint has none"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := logOf(t, batches)
			must(t, vfs.WriteFileAtomic(mem, "/p-0/"+epochFile, []byte(c.content)))
			problems, out := verify(t, mem, "/p-0")
			if (problems == 0) != (c.want == "") || !strings.Contains(out, c.want) {
				t.Errorf("got %d problems, want %q:\n%s", problems, c.want, out)
			}
		})
	}
}

func TestSnapshotsAndEpochsAreDumped(t *testing.T) {
	mem := logOf(t, []batchSpec{{offset: 0}})
	const snapshot = "/p-0/00000000000000000002.snapshot"
	must(t, vfs.WriteFileAtomic(mem, snapshot,
		snapshotOf(snapshotLine{ProducerID: 7, LastSequence: 5, LastOffset: 1, Timestamp: 1000,
			TxnFirstOffset: -1})))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/"+epochFile, []byte("0\n1\n3 0\n")))
	want := snapshot +
		"\nproducer id=7 epoch=0 sequence=5 offset=1 delta=0 time=1970-01-01T00:00:01.000Z " +
		"coordinator=0 transaction=-1\n" +
		"/p-0/" + epochFile + "\nepoch 3 from offset 0\n"
	if got := dump(t, mem, DumpOptions{}, snapshot, "/p-0/"+epochFile); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if problems, out := verify(t, mem, snapshot, "/p-0/"+epochFile); problems != 0 {
		t.Errorf("files named without their log: got %d problems, want 0:\n%s", problems, out)
	}
	must(t, vfs.WriteFileAtomic(mem, snapshot, []byte("nonsense")))
	if problems, out := verify(t, mem, snapshot); problems != 1 {
		t.Errorf("malformed snapshot: got %d problems, want 1:\n%s", problems, out)
	}
}

func TestDumpOfARangeOfOffsets(t *testing.T) {
	mem := partition(t, "/p-0", 8, 1) // each batch contains two records; the first offset is 5
	text := dump(t, mem, DumpOptions{Records: true, From: 8, To: 10}, "/p-0")
	if strings.Count(text, "batch position") != 2 || strings.Count(text, "record offset") != 2 ||
		!strings.Contains(text, "record offset=8 ") || !strings.Contains(text, "record offset=9 ") {
		t.Errorf("want 2 batches and the records at the offsets 8 and 9; got:\n%s", text)
	}
}

// TestVerifyReportsLeftovers checks that verify prints a note about each leftover file of an
// interrupted swap, and finds no problem.
func TestVerifyReportsLeftovers(t *testing.T) {
	mem := partition(t, "/p-0", 3)
	for _, name := range []string{"00000000000000000000.log.deleted",
		"00000000000000000005.log.cleaned", "x.tmp"} {
		must(t, vfs.WriteFileAtomic(mem, "/p-0/"+name, bytes.Repeat([]byte("x"), 9)))
	}
	if problems, out := verify(t, mem, "/p-0"); problems != 0 ||
		strings.Count(out, ": note: leftover of") != 3 {
		t.Errorf("got %d problems, want 0 and 3 notes:\n%s", problems, out)
	}
}
