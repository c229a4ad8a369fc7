package metadata

import "testing"

func TestImageFindsWhatItHolds(t *testing.T) {
	orders, bills := &Topic{Name: "orders", ID: ID{1}}, &Topic{Name: "bills", ID: ID{2}}
	image := NewImage("cluster", CleanerBudget{},
		[]Broker{{ID: 7, Endpoints: "kafka://b7:1"}, {ID: 2, Endpoints: "kafka://b2:1"}},
		[]*Topic{orders, bills})
	if image.Topics[0] != bills || image.Brokers[0].ID != 2 {
		t.Errorf("not sorted: topics %v, brokers %v", image.Topics, image.Brokers)
	}
	if image.Topic("orders") != orders || image.TopicByID(ID{2}) != bills {
		t.Error("a topic is not found by its name or id")
	}
	if image.Topic("order") != nil || image.TopicByID(ID{3}) != nil {
		t.Error("a topic is found that is not there")
	}
	if b, ok := image.Broker(7); !ok || b.Endpoints != "kafka://b7:1" {
		t.Errorf("broker 7 is %+v, %t", b, ok)
	}
	for _, id := range []int32{-1, 3, 8} {
		if b, ok := image.Broker(id); ok || b != (Broker{}) {
			t.Errorf("broker %d is %+v, %t", id, b, ok)
		}
	}
}

func TestEmptyImage(t *testing.T) {
	image := NewImage("cluster", CleanerBudget{}, nil, nil)
	if _, ok := image.Broker(0); ok || image.Topic("x") != nil {
		t.Error("an empty image holds something")
	}
}

// TestWhoIsCountedOn: broker 0 stops in order as soon as nothing counts on it any more. Broker 1
// stays, 2 leaves, 3 is away.
func TestWhoIsCountedOn(t *testing.T) {
	for name, test := range map[string]struct {
		leader  int32
		isr     []int32
		counted bool
	}{
		"it leads, and another could":              {0, []int32{0, 1}, true},
		"it leads, and another could that leaves":  {0, []int32{0, 2}, false},
		"it leads, and another could that is away": {0, []int32{0, 3}, false},
		"it leads alone":                           {0, []int32{0}, false},
		"it is in sync with one that stays":        {1, []int32{0, 1}, true},
		"it is in sync with one that leaves":       {2, []int32{0, 1, 2}, false},
		"it is in sync, and nobody leads":          {NoBroker, []int32{0, 1}, false},
		"it is not in sync":                        {1, []int32{1, 2}, false},
	} {
		partitions := []*Partition{{Leader: 1, ISR: []int32{1}},
			{Leader: test.leader, ISR: test.isr}}
		image := NewImage("cluster", CleanerBudget{},
			[]Broker{{ID: 0, Leaving: true}, {ID: 1}, {ID: 2, Leaving: true}},
			[]*Topic{{Name: "orders", Partitions: partitions}})
		if got := image.DependsOn(0); got != test.counted {
			t.Errorf("%s: counted on: %t", name, got)
		}
	}
}
