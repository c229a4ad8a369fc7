package metadata

import "testing"

func TestImageLookups(t *testing.T) {
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
		t.Error("a topic that does not exist was found")
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
		t.Error("an empty image has a broker or a topic")
	}
}

// TestDependsOn checks that broker 0 can complete its controlled shutdown when no partition depends
// on it. Broker 1 is up, broker 2 is in controlled shutdown, and broker 3 is down.
func TestDependsOn(t *testing.T) {
	for name, test := range map[string]struct {
		leader  int32
		isr     []int32
		depends bool
	}{
		"leads; an in-sync replica is up":                 {0, []int32{0, 1}, true},
		"leads; the other in-sync replica is in shutdown": {0, []int32{0, 2}, false},
		"leads; the other in-sync replica is down":        {0, []int32{0, 3}, false},
		"leads; the only in-sync replica":                 {0, []int32{0}, false},
		"in sync with a leader that is up":                {1, []int32{0, 1}, true},
		"in sync with a leader in shutdown":               {2, []int32{0, 1, 2}, false},
		"in sync without a leader":                        {NoBroker, []int32{0, 1}, false},
		"not in sync":                                     {1, []int32{1, 2}, false},
	} {
		partitions := []*Partition{{Leader: 1, ISR: []int32{1}},
			{Leader: test.leader, ISR: test.isr}}
		image := NewImage("cluster", CleanerBudget{},
			[]Broker{{ID: 0, Leaving: true}, {ID: 1}, {ID: 2, Leaving: true}},
			[]*Topic{{Name: "orders", Partitions: partitions}})
		if got := image.DependsOn(0); got != test.depends {
			t.Errorf("%s: DependsOn returned %t, want %t", name, got, test.depends)
		}
	}
}

func TestWithoutDeletedRemovesOnlyDeletedTopics(t *testing.T) {
	topic := func(name string, id byte) *Topic { return &Topic{Name: name, ID: ID{id}} }
	image := func(cluster string, topics ...*Topic) *Image {
		return NewImage(cluster, CleanerBudget{}, []Broker{{ID: 1}}, topics)
	}
	applied := image("c", topic("a", 1), topic("b", 2))
	for name, newer := range map[string]*Image{
		"none": nil, "itself": applied, "another cluster": image("other"),
		"another topic": image("c", topic("a", 1), topic("b", 2), topic("z", 3)),
	} {
		if applied.WithoutDeleted(newer) != applied {
			t.Errorf("%s: the image was changed", name)
		}
	}
	// Topic b was deleted, and a was deleted and created again.
	remaining := applied.WithoutDeleted(image("c", topic("a", 9)))
	if len(remaining.Topics) != 0 || remaining.Topic("a") != nil ||
		remaining.TopicByID(ID{2}) != nil || len(remaining.Brokers) != 1 {
		t.Errorf("remaining topics %v, brokers %v", remaining.Topics, remaining.Brokers)
	}
	remaining = applied.WithoutDeleted(image("c", topic("b", 2), topic("z", 3)))
	if len(remaining.Topics) != 1 || remaining.Topic("b") != applied.Topics[1] {
		t.Errorf("remaining topics %v, want b", remaining.Topics)
	}
	if len(applied.Topics) != 2 || applied.Topic("a") == nil {
		t.Error("the original image was modified")
	}
}
