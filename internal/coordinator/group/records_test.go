package group

import (
	"encoding/hex"
	"testing"
	"time"
)

type noTimers struct{}

func (noTimers) Set(TimerKey, time.Duration) {}
func (noTimers) Clear(TimerKey)              {}

// TestRecordsMatchKafkasFormat checks that records are encoded to the bytes that follow from the
// JSON schemas of Kafka's coordinator (OffsetCommitKey, OffsetCommitValue, GroupMetadataKey,
// GroupMetadataValue). Each key or value begins with its version.
func TestRecordsMatchKafkasFormat(t *testing.T) {
	now := time.UnixMilli(0x0102030405)
	committed := Offset{Offset: 9, LeaderEpoch: 3, Metadata: "m", TopicID: [16]byte{1, 15: 2},
		CommittedMs: now.UnixMilli(), ExpireMs: -1}
	offset, old := offsetRecord("g", topicPartition{"t", 7}, committed), committed
	old.ExpireMs = 8
	g := &group{id: "g", generation: 2, protocolType: "consumer", protocol: "range", leader: "a"}
	for name, want := range map[string][2]string{
		"offset key": {"0001" + "000167" + "000174" + "00000007", hex.EncodeToString(offset.Key)},
		"offset value": {
			"0004" + "0000000000000009" + "00000003" + "026d" + "0000000102030405" + "01" + "00" +
				"10" + "01000000000000000000000000000002",
			hex.EncodeToString(offset.Value),
		},
		"expiry": {
			"0001" + "0000000000000009" + "00016d" + "0000000102030405" + "0000000000000008",
			hex.EncodeToString(offsetRecord("g", topicPartition{"t", 7}, old).Value),
		},
		"group key": {"0002" + "000167", hex.EncodeToString(groupKey("g"))},
		"empty group": {
			"0003" + "0008636f6e73756d6572" + "00000003" + "ffff" + "ffff" + "0000000102030405" +
				"00000000",
			hex.EncodeToString(g.emptyRecord(now).Value),
		},
	} {
		if want[0] != want[1] {
			t.Errorf("%s: got %s, want %s", name, want[1], want[0])
		}
	}
}

func FuzzReplay(f *testing.F) {
	now := time.UnixMilli(1_700_000_000_000)
	g := &group{id: "g", generation: 2, protocolType: "consumer", protocol: "range", leader: "a"}
	g.byID = map[string]*member{}
	g.members = []*member{{id: "a", clientID: "c", protocols: []Protocol{{"range", []byte("x")}},
		session: time.Second}}
	for _, r := range []Record{
		offsetRecord("g", topicPartition{"t", 7},
			Offset{Offset: 9, LeaderEpoch: 3, Metadata: "m", TopicID: [16]byte{7},
				CommittedMs: now.UnixMilli(), ExpireMs: -1}), g.emptyRecord(now),
		g.record(now, func(*member) []byte { return []byte("all") }), {Key: groupKey("g")},
		{Key: offsetKey("g", topicPartition{"t", 7})},
	} {
		f.Add(r.Key, r.Value, true)
		f.Add(r.Key, r.Value, false)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, loaded bool) {
		s := New(Config{}, noTimers{})
		if loaded {
			s.Loaded(now)
		}
		if _, err := s.Replay(now, key, value); err != nil {
			return
		}
		s.Loaded(now)
		_, _ = s.Describe("g") // checks only that Describe does not panic
		s.Expire(now.Add(time.Hour*24*365), 10)
	})
}
