package logstore

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestOffsetCheckpointsAreWrittenAsKafkaDoes(t *testing.T) {
	offsets := map[PartitionID]int64{{"b.c_d-e", 1}: 7, {"a", 10}: 0, {"a", 2}: 1 << 40}
	want := "0\n3\na 2 1099511627776\na 10 0\nb.c_d-e 1 7\n"
	content := encodeOffsets(offsets)
	if string(content) != want {
		t.Errorf("%q, want %q", content, want)
	}
	back, err := decodeOffsets(content)
	if err != nil || !reflect.DeepEqual(back, offsets) {
		t.Errorf("%v, %v", back, err)
	}
}

func TestMalformedCheckpointsAreRefused(t *testing.T) {
	for _, content := range []string{
		"", "0", "0\n", "1\n0\n", "0\n1\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n",
		"0\n1\na 0 x\n", "0\n1\na 0 -1\n",
		"0\n1\na -1 1\n", "0\n1\na 0 1 2\n", "0\n1\na 0 9223372036854775808\n", "0\n-1\n",
		"0\n01\na 0 1\n",
	} {
		if got, err := decodeOffsets([]byte(content)); !errors.Is(err, errCheckpoint) {
			t.Errorf("%q: %v, %v", content, got, err)
		}
	}
}

func TestMalformedEpochsAreRefused(t *testing.T) {
	for _, content := range []string{
		"0\n1\n1\n", "0\n1\nx 0\n", "0\n1\n0 x\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n",
		"0\n2\n1 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n2\n2 0\n1 5\n",
	} {
		if got, err := decodeEpochs([]byte(content)); !errors.Is(err, errCheckpoint) {
			t.Errorf("%q: %v, %v", content, got, err)
		}
	}
}

func FuzzDecodeCheckpoints(f *testing.F) {
	f.Add([]byte("0\n2\na 0 1\nb 1 2\n"))
	f.Add([]byte("0\n2\n1 0\n2 5\n"))
	f.Add([]byte("0\n0\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if offsets, err := decodeOffsets(content); err == nil {
			if back, err := decodeOffsets(encodeOffsets(offsets)); err != nil ||
				!reflect.DeepEqual(back, offsets) {
				t.Errorf("offsets %v came back as %v, %v", offsets, back, err)
			}
		}
		if epochs, err := decodeEpochs(content); err == nil {
			if back, err := decodeEpochs(epochs.encode()); err != nil ||
				!slices.Equal(back, epochs) {
				t.Errorf("epochs %v came back as %v, %v", epochs, back, err)
			}
		}
	})
}

func TestEpochCache(t *testing.T) {
	base := epochCache{{0, 0}, {2, 10}, {5, 20}}
	for _, test := range []struct {
		name string
		got  epochCache
		want epochCache
	}{
		{"a newer epoch is added", base.assign(6, 30),
			epochCache{{0, 0}, {2, 10}, {5, 20}, {6, 30}}},
		{"an older or equal epoch changes nothing", base.assign(5, 30), base},
		{"an epoch without a record gives way to the next at the same offset", base.assign(6, 20),
			epochCache{{0, 0}, {2, 10}, {6, 20}}},
		{"entries above a new start are contradicted", base.assign(6, 15),
			epochCache{{0, 0}, {2, 10}, {6, 15}}},
		{"truncation at the front within an epoch moves its start", base.truncateFront(12),
			epochCache{{2, 12}, {5, 20}}},
		{"truncation at the front at a start", base.truncateFront(10),
			epochCache{{2, 10}, {5, 20}}},
		{"truncation at the front behind all keeps the last", base.truncateFront(99),
			epochCache{{5, 99}}},
		{"truncation at the front before all changes nothing", epochCache{{3, 7}}.truncateFront(5),
			epochCache{{3, 7}}},
		{"truncation at the end", base.truncateEnd(19), epochCache{{0, 0}, {2, 10}}},
		{"truncation at the end keeps an epoch that begins there", base.truncateEnd(20), base},
		{"truncation of nothing", epochCache(nil).truncateFront(3).truncateEnd(1), nil},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
	if !slices.Equal(base, epochCache{{0, 0}, {2, 10}, {5, 20}}) {
		t.Errorf("the cache was changed in place: %v", base)
	}
	for offset, want := range map[int64]int32{0: 0, 9: 0, 10: 2, 19: 2, 20: 5, 1000: 5} {
		if got := base.at(offset); got != want {
			t.Errorf("epoch at %d is %d, want %d", offset, got, want)
		}
	}
	if got := (epochCache{{3, 7}}).at(6); got != -1 {
		t.Errorf("epoch below the first entry is %d", got)
	}
}

func TestDirectoryNamesAreReadFromTheLastDash(t *testing.T) {
	for name, want := range map[string]PartitionID{
		"a-0": {"a", 0}, "a-b-12": {"a-b", 12}, "a.b_c-1": {"a.b_c", 1}, "__x-49": {"__x", 49},
		"--3": {"-", 3}, "1-2-3": {"1-2", 3},
	} {
		if got, ok := parsePartition(name); !ok || got != want || got.String() != name {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "a", "-0", "a-", "a-x", "a-00", "a-+1", "a--1x",
		"a-0.0123-delete", "a-0.0123-retained", "a-0-stray", "a-99999999999",
		"my backup-1", "a\tb-0", "a\n-0", "ä-0", "a/b-0"} {
		if got, ok := parsePartition(name); ok {
			t.Errorf("%s is taken for %v", name, got)
		}
	}
}

func TestNamesPutAsideFitADirectory(t *testing.T) {
	id := PartitionID{Topic: strings.Repeat("t", 249), Index: 12345}
	for _, suffix := range []string{deleteSuffix, retainedSuffix} {
		name := asideName(id, topicOne, suffix)
		if len(name) != nameBytesMax || !strings.HasSuffix(name, suffix) {
			t.Errorf("%d bytes: %s", len(name), name)
		}
	}
}
