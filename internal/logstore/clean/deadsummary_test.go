package clean

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// summaryOf returns the summary of a DeadFile that was decoded as a whole.
func summaryOf(d *DeadFile) *DeadSummary {
	s := &DeadSummary{Binding: d.Binding, ComputedThrough: d.ComputedThrough, Lineage: d.Lineage,
		PassedAtMs: d.PassedAtMs, DeadBytes: d.DeadBytes, DeadRecords: d.DeadRecords}
	for _, set := range d.Removable {
		s.Removable = append(s.Removable, RemovableCount{set.SinceMs, set.Count})
	}
	return s
}

// TestDeadSummaryIsThatOfTheWholeFile checks that a summary matches the whole file, and that a
// truncated file has no summary.
func TestDeadSummaryIsThatOfTheWholeFile(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 300 {
		d := randomDeadFile(random)
		d.DeadBytes = min(d.DeadBytes, d.LogBytes)
		content := d.Encode()
		got, err := ReadDeadSummary(bytes.NewReader(content), int64(len(content)))
		if err != nil || !reflect.DeepEqual(got, summaryOf(d)) {
			t.Fatalf("got %+v, error %v, want %+v", got, err, summaryOf(d))
		}
		short := content[:random.IntN(len(content))]
		if _, err := ReadDeadSummary(bytes.NewReader(short), int64(len(short))); !errors.Is(err,
			ErrDeadFile) {
			t.Fatalf("%d of %d bytes: error %v", len(short), len(content), err)
		}
	}
}

// FuzzDeadSummary checks that every file that a pass accepts has a summary, and that no bytes cause
// a panic.
func FuzzDeadSummary(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 0))
	for range 5 {
		f.Add(randomDeadFile(random).Encode())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := ReadDeadSummary(bytes.NewReader(content), int64(len(content)))
		d, whole := DecodeDeadFile(content)
		if whole != nil || d.DeadBytes < 0 || d.DeadBytes > d.LogBytes {
			return
		}
		if err != nil || !reflect.DeepEqual(got, summaryOf(d)) {
			t.Fatalf("got %+v, error %v, want %+v", got, err, summaryOf(d))
		}
	})
}
