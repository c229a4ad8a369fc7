package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// markerOf builds a batch that contains a marker of producer 7 at offset 100.
func markerOf(t testing.TB, m Control) Batch {
	t.Helper()
	id := Identity{BaseOffset: 100, LastOffsetDelta: 9, LeaderEpoch: 3, ProducerID: 7,
		ProducerEpoch: 2, BaseSequence: 5}
	content, err := AppendMarker(nil, id, 1_700_000_000_000, m)
	if err != nil {
		t.Fatal(err)
	}
	b, rest, err := Next(content)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d trailing bytes", err, len(rest))
	}
	return b
}

func TestMarkersRoundTrip(t *testing.T) {
	for _, want := range []Control{{ControlAbort, 0}, {ControlCommit, 41},
		{ControlAbort, 1<<31 - 1}, {ControlCommit, -1}} {
		b := markerOf(t, want)
		got, ok, err := b.Marker()
		if err != nil || !ok || got != want {
			t.Errorf("%+v, %t, %v; want %+v", got, ok, err, want)
		}
		if err := b.CheckCRC(); err != nil {
			t.Error(err)
		}
		if !b.Control() || !b.Transactional() {
			t.Errorf("control %t, transactional %t", b.Control(), b.Transactional())
		}
		if b.Count() != 1 || b.LastOffset() != 100 {
			t.Errorf("%d records to offset %d, want 1 to 100", b.Count(), b.LastOffset())
		}
		if b.ProducerID() != 7 || b.ProducerEpoch() != 2 {
			t.Errorf("producer %d, epoch %d, want 7 and 2", b.ProducerID(), b.ProducerEpoch())
		}
		if b.BaseSequence() != -1 || b.Codec() != compress.None {
			t.Errorf("sequence %d, codec %s, want none", b.BaseSequence(), b.Codec())
		}
		if got := b.MaxTimestamp(); got != 1_700_000_000_000 {
			t.Errorf("timestamp %d", got)
		}
	}
}

// TestMarkerHasKafkasBytes checks the bytes of the marker's record as KIP-98 defines them: length,
// attributes, deltas, key and value.
func TestMarkerHasKafkasBytes(t *testing.T) {
	want, err := hex.DecodeString("20000000" + "08" + "00000001" + "0c" + "000000000029" + "00")
	if err != nil {
		t.Fatal(err)
	}
	if got := markerOf(t, Control{ControlCommit, 41})[HeaderBytes:]; !bytes.Equal(got, want) {
		t.Errorf("record %x, want %x", []byte(got), want)
	}
}

func TestMarkerIgnoresBatchesThatEndNoTransaction(t *testing.T) {
	empty := NewBuilder(compress.None, compress.LevelDefault)
	empty.Reset(Identity{Control: true, Transactional: true, ProducerID: 7})
	emptied, err := empty.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]Batch{
		"KAFKA-5490: empty control batch": emptied,
		"control record of a later type":  markerOf(t, Control{Type: 5}),
	} {
		if m, ok, err := b.Marker(); ok || err != nil {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestDamagedMarkersAreCorrupt(t *testing.T) {
	for name, r := range map[string]Record{
		"no key":           {Value: make([]byte, 6)},
		"short key":        {Key: []byte{0, 0, 0}, Value: make([]byte, 6)},
		"short value":      {Key: make([]byte, 4), Value: make([]byte, 5)},
		"negative version": {Key: []byte{0x80, 0, 0, 0}, Value: make([]byte, 6)},
	} {
		b := NewBuilder(compress.None, compress.LevelDefault)
		b.Reset(Identity{Control: true, Transactional: true, ProducerID: 7})
		b.Add(&r)
		content, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok, err := Batch(content).Marker(); ok || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %t, %v", name, m, ok, err)
		}
	}
}

func FuzzMarker(f *testing.F) {
	f.Add([]byte(markerOf(f, Control{ControlAbort, 1})))
	f.Add([]byte(markerOf(f, Control{ControlCommit, 0})))
	f.Fuzz(func(t *testing.T, content []byte) {
		b, _, err := Next(content)
		if err != nil {
			return
		}
		if _, ok, err := b.Marker(); ok && (err != nil || !b.Control() || b.Count() == 0) {
			t.Errorf("Marker returned a marker of a batch without one: %v", err)
		}
	})
}
