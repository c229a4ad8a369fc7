package inspect

import (
	"io"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestVerifyAcceptsUnsyncedBytes uses the files of a running or killed broker, which has the newest
// index entries only in memory. The first of two segments, with the offsets [0, 3), was rolled but
// not sealed. The second segment has no transaction index yet. Verify prints a note for each
// missing entry above the recovery point, and reports a problem for each missing entry below it.
func TestVerifyAcceptsUnsyncedBytes(t *testing.T) {
	for name, test := range map[string]struct {
		points          string // content of the checkpoint; empty if the file does not exist
		problems, notes int
	}{
		"no checkpoint":                     {"", 3, 0},
		"everything is synced":              {"0\n2\nother 0 0\np 0 9\n", 3, 0},
		"only another partition is listed":  {"0\n1\np 1 0\n", 3, 0},
		"nothing is synced":                 {"0\n1\np 0 0\n", 0, 3},
		"part of the second segment synced": {"0\n1\np 0 6\n", 2, 1},
		"first segment and more synced":     {"0\n1\np 0 4\n", 1, 2},
		// A segment may be rolled after its last record was synced. It is then not sealed.
		"first segment synced":   {"0\n1\np 0 3\n", 0, 3},
		"not a number":           {"0\n1\np 0 x\n", 4, 0},
		"missing field":          {"0\n1\np 0\n", 4, 0},
		"negative":               {"0\n1\np 0 -1\n", 4, 0},
		"fewer lines than count": {"0\n2\np 0 0\n", 4, 0},
	} {
		mem := txnPartition(t)
		must(t, vfs.WriteFileAtomic(mem, "/p-0/"+segment.Name(0, segment.TimeIndexExtension, ""),
			nil))
		must(t, mem.Remove(txnFile))
		if test.points != "" {
			must(t, vfs.WriteFileAtomic(mem, "/"+recoveryFile, []byte(test.points)))
		}
		problems, out := verify(t, mem, "/p-0")
		if notes := strings.Count(out, "the next start rebuilds it"); problems != test.problems ||
			notes != test.notes {
			t.Errorf("%s: got %d problems and %d notes, want %d and %d:\n%s", name, problems, notes,
				test.problems, test.notes, out)
		}
	}
}

// TestVerifyFindsAWrongEntryThatIsNotSynced checks that a wrong index entry is a problem even above
// the recovery point, where a missing entry is not a problem.
func TestVerifyFindsAWrongEntryThatIsNotSynced(t *testing.T) {
	mem := txnPartition(t)
	entries, err := mem.ReadFile(txnFile)
	must(t, err)
	entries[9] = 9 // changes the producer id from 7 to 9
	must(t, vfs.WriteFileAtomic(mem, txnFile, entries))
	must(t, vfs.WriteFileAtomic(mem, "/"+recoveryFile, []byte("0\n1\np 0 0\n")))
	if problems, out := verify(t, mem, "/p-0"); problems == 0 ||
		!strings.Contains(out, "is of producer 7, not 9") {
		t.Errorf("got %d problems, want one about the wrong producer:\n%s", problems, out)
	}
}

func FuzzRecoveryPoints(f *testing.F) {
	f.Add([]byte("0\n1\np 0 3\n"))
	f.Add([]byte("0\n2\n\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		mem := txnPartition(t)
		must(t, vfs.WriteFileAtomic(mem, "/"+recoveryFile, content))
		if _, err := Verify(mem, []string{"/p-0"}, VerifyOptions{}, io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
