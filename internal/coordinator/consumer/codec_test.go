package consumer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

var topicA, topicB = assignor.TopicID{0xa}, assignor.TopicID{0xb}

// examples returns a value of each kind. A test in test/compat checks that Kafka's dump-log shows
// the same contents for these values.
func examples() map[int16][]byte {
	profile := Profile{
		Instance: "i", Rack: "r", ClientID: "c", ClientHost: "/h", Topics: []string{"a", "b"},
		Expression: "t.*", Rebalance: time.Minute,
		Assignor: "uniform",
	}
	current := Current{
		Epoch: 3, Previous: 2, Phase: Unrevoked,
		Assigned: Owned{topicA: {0: 1, 2: 3}, topicB: {1: 2}}, Revoking: Owned{topicA: {5: 1}},
	}
	resolved := Resolved{Topics: []string{"a", "b"}, Version: 7, ResolvedMs: 9}
	return map[int16][]byte{
		kindGroup:      groupValue{5, -2}.append(),
		kindMember:     profile.append(),
		kindAssignment: assignmentValue{5, 1_700_000_000_000}.append(),
		kindTarget:     appendTarget(assignor.Assignment{topicB: {1}, topicA: {0, 3}}),
		kindCurrent:    current.append(),
		kindExpression: resolved.append(),
	}
}

// roundTrip decodes a value and encodes the result.
func roundTrip(kind int16, value []byte) ([]byte, error) {
	switch kind {
	case kindGroup:
		v, err := readGroup(value)
		return v.append(), err
	case kindMember:
		v, err := readProfile(value)
		return v.append(), err
	case kindAssignment:
		v, err := readAssignment(value)
		return v.append(), err
	case kindTarget:
		v, err := readTarget(value)
		return appendTarget(v), err
	case kindCurrent:
		v, err := readCurrent(value)
		return v.append(), err
	default:
		v, err := readResolved(value)
		return v.append(), err
	}
}

// TestRecordFormat checks that records are encoded to the bytes in
// docs/internals/format/consumer-groups.md.
func TestRecordFormat(t *testing.T) {
	want := map[int16]string{
		kindGroup: "0000" + "00000005" + "010008" + "fffffffffffffffe",
		kindMember: "0000" + "0269" + "0272" + "0263" + "032f68" + "03" + "0261" + "0262" +
			"04742e2a" + "0000ea60" + "08756e69666f726d" + "00",
		kindAssignment: "0000" + "00000005" + "010008" + "0000018bcfe56800",
		kindTarget: "0000" + "03" + "0a000000000000000000000000000000" + "03" + "00000000" +
			"00000003" + "00" +
			"0b000000000000000000000000000000" + "02" + "00000001" + "00" + "00",
		kindCurrent: "0000" + "00000003" + "00000002" + "01" +
			"03" + "0a000000000000000000000000000000" + "03" + "00000000" + "00000002" + "010009" +
			"03" + "00000001" + "00000003" +
			"0b000000000000000000000000000000" + "02" + "00000001" + "010005" + "02" + "00000002" +
			"02" + "0a000000000000000000000000000000" + "02" + "00000005" + "010005" + "02" +
			"00000001" + "00",
		kindExpression: "0000" + "03" + "0261" + "0262" + "0000000000000007" + "0000000000000009" +
			"00",
	}
	for kind, value := range examples() {
		if got := hex.EncodeToString(value); got != want[kind] {
			t.Errorf("kind %d:\n got %s\nwant %s", kind, got, want[kind])
		}
		if got, err := roundTrip(kind, value); !bytes.Equal(got, value) || err != nil {
			t.Errorf("kind %d: decoded and encoded again as %x, %v", kind, got, err)
		}
		for n := range value {
			if _, err := roundTrip(kind, value[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("kind %d: decoding %d of %d bytes: got error %v, want ErrCorrupt", kind, n,
					len(value), err)
			}
		}
		if _, err := roundTrip(kind, append([]byte{0, 1}, value[2:]...)); !errors.Is(err,
			ErrCorrupt) {
			t.Errorf("kind %d: decoding version 1: got error %v, want ErrCorrupt", kind, err)
		}
	}
	for key, want := range map[Key]string{
		{kindGroup, "g", ""}:       "0003" + "000167",
		{kindMember, "g", "m"}:     "0005" + "000167" + "00016d",
		{kindExpression, "g", "x"}: "0010" + "000167" + "000178",
	} {
		if got := hex.EncodeToString(key.append()); got != want {
			t.Errorf("key %+v: got %s, want %s", key, got, want)
		}
		if back, err := ReadKey(key.append()); back != key || err != nil {
			t.Errorf("key %+v was decoded as %+v, %v", key, back, err)
		}
	}
}

// TestRecordsOfOtherKafkaVersions checks that two kinds of records of other Kafka versions can be
// decoded: a record without epochs of partitions, as versions before 4.3 write it, and a record
// with a tag that Heartwood does not know.
func TestRecordsOfOtherKafkaVersions(t *testing.T) {
	bare := "0000" + "00000003" + "00000002" + "00" + "02" + "0a000000000000000000000000000000" +
		"02" + "00000005" + "00" + "01" + "00"
	value, err := hex.DecodeString(bare)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readCurrent(value)
	if want := (Owned{topicA: {5: 3}}); err != nil || !reflect.DeepEqual(got.Assigned, want) {
		t.Errorf("%+v, %v; want %v", got, err, want)
	}
	value, err = hex.DecodeString("0000" + "00000005" + "02" + "0008" + "fffffffffffffffe" +
		"0902" + "ffff")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readGroup(value); err != nil || got != (groupValue{5, -2}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRecords checks that decoding arbitrary bytes returns a value or an error, and that encoding a
// decoded value always yields the same bytes.
func FuzzRecords(f *testing.F) {
	for kind, value := range examples() {
		f.Add(kind, value)
	}
	f.Fuzz(func(t *testing.T, kind int16, value []byte) {
		first, err := roundTrip(kind, value)
		if err != nil {
			return
		}
		second, err := roundTrip(kind, first)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("kind %d: %x was encoded as %x and then as %x, %v", kind, value, first, second,
				err)
		}
	})
}

// FuzzReplay checks that a Group does not panic when it replays two arbitrary records and then
// handles a heartbeat.
func FuzzReplay(f *testing.F) {
	for kind, value := range examples() {
		f.Add(kind, value, int16(kindGroup), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, kind int16, value []byte, other int16, second []byte) {
		now, g := time.Unix(1_700_000_000, 0), New("g", true)
		if g.Replay(now, config.Session, Key{kind, "g", "m"}, value) != nil ||
			g.Replay(now, config.Session, Key{other, "g", "m"}, second) != nil {
			return
		}
		g.Loaded(now, config.Session)
		w := world{topics: map[string]Topic{"a": {topicA, "a", 4}}}
		w.takeSnapshot()
		h := Heartbeat{Group: "g", Member: "n", Topics: []string{"a"}, Owned: assignor.Assignment{}}
		_, records, err := g.Heartbeat(now, &h, w.snapshot, config)
		for _, r := range records {
			k, bad := ReadKey(r.Key)
			if bad == nil {
				bad = g.Replay(now, config.Session, k, r.Value)
			}
			if bad != nil {
				t.Error(bad)
			}
		}
		if d := g.Describe(); err == nil && len(d.Members) == 0 {
			t.Errorf("the member that joined is missing in %+v", d)
		}
	})
}
