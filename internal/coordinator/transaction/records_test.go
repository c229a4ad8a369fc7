package transaction

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestRecordsRoundTrip(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	first := newEntry(now, 7, time.Minute)
	open := first.extended(now, []Partition{{"u", 1}, {"t", 2}, {"t", 0}, {"t", 2}}, 2)
	decided := open.prepared(now, PrepareCommit, true)
	decided.nextID, decided.nextEpoch = 9, 4
	for _, want := range []entry{first, open, decided, decided.completed(now)} {
		got, err := decode(encode("a", want).Value)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if got := open.partitions; !reflect.DeepEqual(got,
		[]Partition{{"t", 0}, {"t", 2}, {"u", 1}}) {
		t.Errorf("got partitions %v", got)
	}
}

// TestRecordBytes checks the bytes of encoded records. Kafka 4.3.1 decodes these bytes to the same
// values (docs/internals/format/transaction-state.md).
func TestRecordBytes(t *testing.T) {
	e := newEntry(time.UnixMilli(2), 7, time.Minute)
	e = e.extended(time.UnixMilli(3), []Partition{{"t", 1}}, 2)
	e.lastEpoch = 5
	got := encode("ab", e)
	if want := "000000026162"; hex.EncodeToString(got.Key) != want {
		t.Errorf("got key %x, want %s", got.Key, want)
	}
	if want := "0001" + "0000000000000007" + "0000" + "0000ea60" + "01" + "02" + "0274" + "02" +
		"00000001" + "00" + "0000000000000003" + "0000000000000003" + "02" + "0202" + "0002" +
		"859f0102" + "0005"; hex.EncodeToString(got.Value) != want {
		t.Errorf("got value %x, want %s", got.Value, want)
	}
}

func TestCorruptRecords(t *testing.T) {
	valid := encode("a", newEntry(time.UnixMilli(1), 7, time.Minute))
	phase := encode("a", entry{phase: 6}).Value
	for name, r := range map[string]Record{
		"empty key":     {Key: nil, Value: valid.Value},
		"short key":     {Key: []byte{0, 0, 0}, Value: valid.Value},
		"empty value":   {Key: valid.Key, Value: []byte{}},
		"short value":   {Key: valid.Key, Value: valid.Value[:12]},
		"value version": {Key: valid.Key, Value: append([]byte{0, 2}, valid.Value[2:]...)},
		"phase":         {Key: valid.Key, Value: phase},
	} {
		l := newLog(t)
		if _, err := l.Replay(l.now, r.Key, r.Value); !errors.Is(err, ErrCorruptRecord) {
			t.Errorf("%s: got %v, want ErrCorruptRecord", name, err)
		}
	}
	l := newLog(t)
	if _, err := l.Replay(l.now, []byte{0, 1, 9}, nil); err != nil || l.Len() != 0 {
		t.Errorf("a key of a later version: got %v, %d ids", err, l.Len())
	}
}

func FuzzReplay(f *testing.F) {
	r := encode("a", ongoing(3, 2))
	f.Add(r.Key, r.Value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		l := newLog(t)
		_, err := l.Replay(l.now, key, value)
		if e := l.byID["a"]; err == nil && e != nil {
			again, err := decode(encode("a", e.entry).Value)
			if err != nil || !reflect.DeepEqual(again, e.entry) {
				t.Errorf("got %+v, %v after another round, want %+v", again, err, e.entry)
			}
		}
	})
}
