package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

func TestOffsetsAreEncodedAsByKafka(t *testing.T) {
	offsets := map[PartitionID]int64{{"b.c_d-e", 1}: 7, {"a", 10}: 0, {"a", 2}: 1 << 40}
	want := "0\n3\na 2 1099511627776\na 10 0\nb.c_d-e 1 7\n"
	content := EncodeOffsets(offsets)
	if string(content) != want {
		t.Errorf("got content %q, want %q", content, want)
	}
	back, err := DecodeOffsets(content)
	if err != nil || !reflect.DeepEqual(back, offsets) {
		t.Errorf("got offsets %v and error %v, want %v", back, err, offsets)
	}
}

func TestMalformedOffsetsAreRejected(t *testing.T) {
	for _, content := range []string{
		"", "0", "0\n", "1\n0\n", "0\n1\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n",
		"0\n1\na 0 x\n", "0\n1\na 0 -1\n",
		"0\n1\na -1 1\n", "0\n1\na 0 1 2\n", "0\n1\na 0 9223372036854775808\n", "0\n-1\n",
		"0\n01\na 0 1\n",
	} {
		if got, err := DecodeOffsets([]byte(content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v and error %v, want ErrMalformed", content, got, err)
		}
	}
}

func TestMalformedEpochsAreRejected(t *testing.T) {
	for _, content := range []string{
		"0\n1\n1\n", "0\n1\nx 0\n", "0\n1\n0 x\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n",
		"0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n2\n2 0\n1 5\n",
	} {
		if got, err := DecodeEpochs([]byte(content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v and error %v, want ErrMalformed", content, got, err)
		}
	}
}

func FuzzDecodeCheckpoints(f *testing.F) {
	f.Add([]byte("0\n2\na 0 1\nb 1 2\n"))
	f.Add([]byte("0\n2\n1 0\n2 5\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if offsets, err := DecodeOffsets(content); err == nil {
			if back, err := DecodeOffsets(EncodeOffsets(offsets)); err != nil ||
				!reflect.DeepEqual(back, offsets) {
				t.Errorf("offsets %v: decoded again as %v, error %v", offsets, back, err)
			}
		}
		if epochs, err := DecodeEpochs(content); err == nil {
			if back, err := DecodeEpochs(EncodeEpochs(epochs)); err != nil ||
				!slices.Equal(back, epochs) {
				t.Errorf("epochs %v: decoded again as %v, error %v", epochs, back, err)
			}
		}
	})
}

func TestCleaningStateIsEncodedPerPartition(t *testing.T) {
	all := map[PartitionID]CleaningState{
		{"b", 1}: {TombstoneClean: 7},
		{"a", 10}: {Progress: clean.CleaningProgress{{Below: 5, SinceMs: 0},
			{Below: math.MaxInt64, SinceMs: 9}}},
		{"a", 2}: {TombstoneClean: 1 << 40,
			Progress: clean.CleaningProgress{{Below: 3, SinceMs: 1_000_000_000_000}}},
		{"c", 0}: {},
	}
	want := "0\n3\na 2 1099511627776 3 1000000000000\na 10 0 5 0 9223372036854775807 9\nb 1 7\n"
	content := EncodeCleaning(all)
	if string(content) != want {
		t.Errorf("got content %q, want %q", content, want)
	}
	delete(all, PartitionID{"c", 0}) // the zero value is not written
	back, err := DecodeCleaning(content)
	if err != nil || !reflect.DeepEqual(back, all) {
		t.Fatalf("got states %v and error %v, want %v", back, err, all)
	}
}

func TestMalformedCleaningStateIsRejected(t *testing.T) {
	for _, content := range []string{
		"0\n1\na 0\n", "0\n1\na 0 1 2\n", "0\n1\na x 1\n", "0\n1\na 0 -1\n", "0\n1\na 0 1 2 x\n",
		"0\n1\na 0 1 5 3 5 4\n", "0\n1\na 0 1 5 3 6 3\n",
		"0\n1\na 0 1 0 3\n", "0\n1\na 0 1" + strings.Repeat(" 1 1", clean.ProgressStepsMax+1) +
			"\n",
	} {
		if got, err := DecodeCleaning([]byte(content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v and error %v, want ErrMalformed", content, got, err)
		}
	}
}

func FuzzDecodeCleaning(f *testing.F) {
	f.Add([]byte("0\n2\na 0 1 2 3\nb 1 2\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := DecodeCleaning(content)
		if err != nil {
			return
		}
		again := EncodeCleaning(all)
		for id, state := range all {
			if state.TombstoneClean == 0 && len(state.Progress) == 0 {
				delete(all, id) // a partition without a line decodes as the zero value
			}
		}
		if back, err := DecodeCleaning(again); err != nil || !reflect.DeepEqual(back, all) {
			t.Errorf("states %v: decoded again as %v, error %v", all, back, err)
		}
	})
}

func TestAbortedCountsAreEncodedPerSegment(t *testing.T) {
	all := map[PartitionID]AbortedCounts{{"b", 0}: {{0, 3}, {70, 1}}, {"a", 1}: {{5, 2}},
		{"c", 0}: nil}
	content := EncodeAborted(all)
	if want := "0\n3\na 1 5 2\nb 0 0 3\nb 0 70 1\n"; string(content) != want {
		t.Errorf("got content %q, want %q", content, want)
	}
	delete(all, PartitionID{"c", 0}) // it has no line
	back, err := DecodeAborted(content)
	if err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("got counts %v and error %v, want %v", back, err, all)
	}
	counts := back[PartitionID{"b", 0}]
	if counts.Of(70) != 1 || counts.Of(71) != 0 || AbortedCounts(nil).Of(0) != 0 {
		t.Errorf("Of(70) = %d, Of(71) = %d, Of(0) without counts = %d, want 1, 0 and 0", counts.Of(70),
			counts.Of(71), AbortedCounts(nil).Of(0))
	}
}

func TestMalformedAbortedCountsAreRejected(t *testing.T) {
	for _, content := range []string{
		"", "0\n1\na 0 1\n", "0\n1\na -1 0 1\n", "0\n1\na 0 -1 1\n", "0\n1\na 0 0 0\n",
		"0\n2\na 0 5 1\na 0 5 1\n", "0\n2\na 0 6 1\na 0 5 1\n",
	} {
		if got, err := DecodeAborted([]byte(content)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v and error %v, want ErrMalformed", content, got, err)
		}
	}
}

func FuzzDecodeClosedLogs(f *testing.F) {
	segments := []segment.Summary{{Base: 0, Next: 5, FirstTimestamp: 1, MaxTimestamp: 2,
		MaxTimestampOffset: 4}}
	f.Add(EncodeClosedLogs(map[PartitionID]ClosedLog{{"t", 0}: {Segments: segments,
		Ranges: []Range{{5, 9}}, Epochs: SummarizeEpochs(leaderepoch.Cache{{Epoch: 3, Start: 2}})}}, 7))
	line := "t 0 0 5 1 2 4 0 0 100 7 0 7 12 7"
	f.Add([]byte("0\n2\n7 " + checksum([]byte("7")) + "\n" + line + " " + checksum([]byte(line)) + "\n"))
	f.Add([]byte("0\n1\n" + line + " 00000000\n"))
	f.Add([]byte("0\n1\n" + line + "\n"))
	f.Add([]byte("0\n1\n  "))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, writer, err := DecodeClosedLogs(content)
		if err != nil {
			return
		}
		again, sameWriter, err := DecodeClosedLogs(EncodeClosedLogs(all, writer))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(all) || sameWriter != writer {
			t.Errorf("logs %v of %d: decoded again as %v of %d, error %v", all, writer, again,
				sameWriter, err)
		}
	})
}
