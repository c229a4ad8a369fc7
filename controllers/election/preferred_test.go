package election

import (
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

func TestLeadershipMovesBackAfterTheDelay(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key := partitionset.Key{Topic: "orders"}
	p := preferred{}
	topics := map[string]partitionset.Topic{"orders": {Tag: "topic-id", Partitions: 1}}
	for _, step := range []struct {
		after    time.Duration
		eligible bool
		due      bool
		again    time.Duration
	}{
		{0, true, false, 30 * time.Second},
		{20 * time.Second, true, false, 10 * time.Second},
		// The preferred leader is not eligible. The delay starts again with the next step.
		{25 * time.Second, false, false, 0},
		{26 * time.Second, true, false, 30 * time.Second},
		{56 * time.Second, true, true, 0},
		{57 * time.Second, true, true, 0},
	} {
		set := decode(t, map[string]string{"orders/0": "1,0 topic-id"},
			map[string]string{"orders/0": "0@5 1:4,0:3 x 9"})
		brokers := map[int32]placement.BrokerState{0: brokerUp(3, ""), 1: brokerUp(4, "")}
		if !step.eligible {
			delete(brokers, 1)
		}
		due, again := p.observe(set, brokers, topics, 30*time.Second, start.Add(step.after))
		if due[key] != step.due || again != step.again {
			t.Errorf("after %v, eligible %t: got due %t, again after %v; want %t, %v", step.after,
				step.eligible, due[key], again, step.due, step.again)
		}
	}
}

func TestPreferredLeaderMustBeAbleToLead(t *testing.T) {
	topics := map[string]partitionset.Topic{"orders": {Tag: "topic-id", Partitions: 1}}
	leaving, unknown := brokerUp(4, ""), brokerUp(4, "")
	leaving.Leaving, unknown.Liveness = true, placement.Unknown
	for name, test := range map[string]struct {
		assignment, state string
		preferred         placement.BrokerState
		want              bool
	}{
		"in sync":               {"1,0 topic-id", "0@5 1:4,0:3 x 9", brokerUp(4, ""), true},
		"leads":                 {"1,0 topic-id", "1@5 1:4,0:3 x 9", brokerUp(4, ""), false},
		"not in sync":           {"1,0 topic-id", "0@5 1,0:3 x 9", brokerUp(4, ""), false},
		"another epoch":         {"1,0 topic-id", "0@5 1:3,0:3 x 9", brokerUp(4, ""), false},
		"leaving":               {"1,0 topic-id", "0@5 1:4,0:3 x 9", leaving, false},
		"unknown":               {"1,0 topic-id", "0@5 1:4,0:3 x 9", unknown, false},
		"leader does not serve": {"1,0 topic-id", "0@5? 1:4,0:3 x 9", brokerUp(4, ""), false},
		"another Topic":         {"1,0 earlier", "0@5 1:4,0:3 x 9", brokerUp(4, ""), false},
		"retained":              {"1,0 topic-id retained", "0@5 1:4,0:3 x 9", brokerUp(4, ""), false},
	} {
		set := decode(t, map[string]string{"orders/0": test.assignment},
			map[string]string{"orders/0": test.state})
		due, _ := preferred{}.observe(set, map[int32]placement.BrokerState{0: brokerUp(3, ""),
			1: test.preferred}, topics, 0, time.Unix(0, 0))
		if (len(due) == 1) != test.want {
			t.Errorf("%s: got due %v, want %t", name, due, test.want)
		}
	}
}
