package inspect

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestVerifyFindsNothingInKafkasSegments checks that verify finds only one problem in Kafka's
// segments: a transaction index that was not copied with the other files.
func TestVerifyFindsNothingInKafkasSegments(t *testing.T) {
	problems, out := verify(t, vfs.OS{}, vectors)
	const missing = vectors + "/vectors-0/00000000000000000061.txnindex: position 0: " +
		"no entry for the aborted transaction of producer 16, offsets 62 to 63\n"
	if problems != 1 || out != missing+
		"checked 5 segments, 46 batches, 91 records, 6136 bytes: 1 problems\n" {
		t.Errorf("got %d problems, want only the missing entry:\n%s", problems, out)
	}
}

func TestVerifyFindsNothingInOurSegments(t *testing.T) {
	mem := partition(t, "/data/p-0", 20, 7, 1)
	for _, paths := range [][]string{
		{"/data"}, {"/data/p-0"}, {"/data", "/data/p-0"},
		{"/data/p-0/00000000000000000005.log", "/data/p-0/00000000000000000005.index",
			"/data/p-0/00000000000000000005.timeindex"},
	} {
		if problems, out := verify(t, mem, paths...); problems != 0 ||
			strings.Count(out, "\n") != 1 {
			t.Errorf("%v: got %d problems, want 0 and only the summary:\n%s", paths, problems, out)
		}
	}
}

// TestVerifyDetectsEveryChangedByte changes each byte in a segment's files once, and checks that
// verify reports a problem. The only exceptions are the base offset and the leader epoch of a
// batch, which no checksum covers.
func TestVerifyDetectsEveryChangedByte(t *testing.T) {
	mem := partition(t, "/p-0", 8, 1)
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for _, extension := range []string{".log", ".index", ".timeindex"} {
		name := "/p-0/00000000000000000005" + extension
		content, err := mem.ReadFile(name)
		must(t, err)
		free := map[int]bool{}
		for rest, position := content, 0; extension == ".log" && len(rest) > 0; {
			b, following, err := record.Next(rest)
			must(t, err)
			for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15} {
				free[position+i] = true
			}
			rest, position = following, position+len(b)
		}
		for position := range content {
			if free[position] {
				continue
			}
			damaged := bytes.Clone(content)
			damaged[position] ^= byte(1 + random.IntN(255))
			must(t, vfs.WriteFileAtomic(mem, name, damaged))
			if problems, out := verify(t, mem, "/p-0"); problems == 0 {
				t.Errorf("%s: byte %d changed to %#x: got no problem, want one:\n%s", name, position,
					damaged[position], out)
			}
		}
		must(t, vfs.WriteFileAtomic(mem, name, content))
	}
}

func TestVerifyReportsProblems(t *testing.T) {
	const log, index, times = "/p-0/00000000000000000005.log", "/p-0/00000000000000000005.index",
		"/p-0/00000000000000000005.timeindex"
	edit := func(mem *vfs.Mem, name string, change func([]byte) []byte) {
		content, err := mem.ReadFile(name)
		must(t, err)
		must(t, vfs.WriteFileAtomic(mem, name, change(content)))
	}
	for name, c := range map[string]struct {
		damage func(mem *vfs.Mem)
		want   string
	}{
		"checksum": {func(mem *vfs.Mem) {
			edit(mem, log,
				func(b []byte) []byte { b[70]++; return b })
		},
			log + ": position 0: offset 5: corrupt record batch: checksum"},
		"truncated": {func(mem *vfs.Mem) {
			edit(mem, log,
				func(b []byte) []byte { return b[:len(b)-5] })
		}, "bytes remain"},
		"repeated offsets": {func(mem *vfs.Mem) {
			edit(mem, log,
				func(b []byte) []byte { return append(b, b...) })
		}, "want at least 21"},
		"offset below base": {func(mem *vfs.Mem) {
			edit(mem, log,
				func(b []byte) []byte { b[7] = 1; return b })
		}, "want at least 5"},
		"incomplete entry": {func(mem *vfs.Mem) {
			edit(mem, times,
				func(b []byte) []byte { return b[:len(b)-1] })
		}, "ends within an entry"},
		"padded with zeros": {func(mem *vfs.Mem) {
			edit(mem, index,
				func(b []byte) []byte { return append(b, make([]byte, 80)...) })
		},
			"does not ascend"},
		"position": {func(mem *vfs.Mem) {
			edit(mem, index,
				func(b []byte) []byte { b[7]++; return b })
		}, "no batch begins at position"},
		"entry after the end": {func(mem *vfs.Mem) {
			edit(mem, index, func(b []byte) []byte { return append(b, 0, 0, 9, 0, 0, 0, 99, 0) })
		}, "is after the last batch"},
		"missing time entry": {func(mem *vfs.Mem) {
			edit(mem, times,
				func(b []byte) []byte { return b[:len(b)-12] })
		}, "the last valid entry has"},
		"overlap": {func(mem *vfs.Mem) {
			for _, extension := range []string{".log", ".index", ".timeindex"} {
				must(t, mem.Rename("/p-0/00000000000000000022"+extension,
					"/p-0/00000000000000000020"+extension))
			}
		}, "overlaps the previous segment, which ends at offset 20"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := partition(t, "/p-0", 8, 1)
			c.damage(mem)
			problems, out := verify(t, mem, "/p-0")
			if problems == 0 || !strings.Contains(out, c.want) {
				t.Errorf("got %d problems, want %q:\n%s", problems, c.want, out)
			}
		})
	}
}

// TestVerifyChecksRecords checks that verify reports a batch with a valid checksum that contains an
// invalid record or a wrong maximum timestamp.
func TestVerifyChecksRecords(t *testing.T) {
	truncated := batchOf(t, compress.None, 0,
		record.Record{Key: []byte("k"), Value: []byte("value"), Timestamp: 9})
	truncated = resealed(truncated[:len(truncated)-3])
	wrongTime := batchOf(t, compress.None, 0,
		record.Record{Key: []byte("k"), Value: []byte("value"), Timestamp: 9})
	wrongTime[42] = 77 // the lowest byte of the maximum timestamp
	for want, b := range map[string]record.Batch{"record 0": truncated,
		"max timestamp 77": resealed(wrongTime)} {
		mem := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(mem, "/00000000000000000000.log", b))
		if problems, out := verify(t, mem, "/00000000000000000000.log"); problems != 1 ||
			!strings.Contains(out, want) {
			t.Errorf("got %d problems, want one with %q:\n%s", problems, want, out)
		}
	}
}

func TestVerifyPrintsJSON(t *testing.T) {
	mem := partition(t, "/p-0", 8, 1)
	must(t, mem.Remove("/p-0/00000000000000000005.index"))
	must(t, mem.Remove("/p-0/00000000000000000005.timeindex"))
	must(t, vfs.WriteFileAtomic(mem, "/p-0/"+epochFile, []byte("x")))
	var out bytes.Buffer
	problems, err := Verify(mem, []string{"/p-0"}, VerifyOptions{JSON: true}, &out)
	must(t, err)
	want := `{"file":"/p-0/leader-epoch-checkpoint","position":0,"problem":"invalid checkpoint: want ` +
		`version 0 and the number of lines"}` + "\n" +
		`{"file":"/p-0/00000000000000000005.index","note":"the file is missing; the next start ` +
		`rebuilds it"}` + "\n" +
		`{"file":"/p-0/00000000000000000005.timeindex","note":"the file is missing; the next start ` +
		`rebuilds it"}` + "\n" +
		`{"segments":2,"batches":9,"records":18,"bytes":873,"problems":1}` + "\n"
	if problems != 1 || out.String() != want {
		t.Errorf("got %d problems:\n%swant 1:\n%s", problems, out.String(), want)
	}
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("invalid JSON: %s", line)
		}
	}
}

// TestVerifyReportsUncheckedParts uses a data file that cannot be read. Verify returns an error,
// counts no problem, and still checks the other files.
func TestVerifyReportsUncheckedParts(t *testing.T) {
	fault := vfs.NewFault(partition(t, "/p-0", 2, 2))
	fault.Inject(vfs.Rule{Op: vfs.OpRead, Name: "*5.log"})
	var out bytes.Buffer
	problems, err := Verify(fault, []string{"/p-0"}, VerifyOptions{}, &out)
	if err == nil || problems != 0 ||
		!strings.Contains(out.String(), "checked 2 segments, 2 batches") {
		t.Errorf("got %d problems and error %v, want 0, an error and 2 checked batches:\n%s", problems,
			err, out.String())
	}
}
