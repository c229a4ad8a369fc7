package timestamps

import (
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestRecordsAreFoundInTheOrderOfOffsets checks timestamps that do not ascend. First finds the
// first matching record by offset, and among equal largest timestamps Largest finds the first
// record.
func TestRecordsAreFoundInTheOrderOfOffsets(t *testing.T) {
	batch := func(ms int64) []byte {
		return storetest.Batch{Keys: []string{"k"}, Timestamp: time.UnixMilli(ms)}.Bytes(t)
	}
	var list segmentlist.Current
	var o offsets.Offsets
	list.Publish(segmenttest.Segments(t, segmenttest.Dir(t, vfs.NewMem()),
		[][]byte{batch(10), batch(40), batch(20)}, [][]byte{batch(15), batch(90)},
		[][]byte{batch(90), batch(30)}))
	o.Restore(0, 7, 7, &producer.State{})
	s := Search{List: &list, Offsets: &o}
	for _, test := range []struct {
		ms, limit, offset int64 // offset is -1 if no record is expected
	}{{0, 7, 0}, {10, 7, 0}, {11, 7, 1}, {41, 7, 4}, {90, 7, 4}, {91, 7, -1}, {41, 4, -1},
		{15, 1, -1}} {
		found, ok, err := s.First(test.ms, test.limit)
		if err != nil || ok != (test.offset >= 0) || ok && found.Offset != test.offset {
			t.Errorf("since %d below %d: %+v, %t, %v; want %d", test.ms, test.limit, found, ok, err,
				test.offset)
		}
	}
	if found, ok, err := s.Largest(); err != nil || !ok || found.Offset != 4 || found.Timestamp != 90 {
		t.Errorf("largest timestamp: %+v, %t, %v", found, ok, err)
	}
	o.RaiseLogStart(5, &producer.State{})
	if found, ok, err := s.First(11, 7); err != nil || !ok || found.Offset != 5 {
		t.Errorf("above the log start: %+v, %t, %v", found, ok, err)
	}
	list.Publish(nil).Release()
	if _, _, err := s.First(0, 7); !errors.Is(err, segmentlist.ErrClosed) {
		t.Errorf("a closed log: %v", err)
	}
}
