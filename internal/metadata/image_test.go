package metadata

import "testing"

func TestImageFindsWhatItHolds(t *testing.T) {
	orders, bills := &Topic{Name: "orders", ID: ID{1}}, &Topic{Name: "bills", ID: ID{2}}
	image := NewImage("cluster", CleanerBudget{}, []Broker{{ID: 7, Host: "b7"}, {ID: 2, Host: "b2"}}, []*Topic{orders, bills})
	if image.Topics[0] != bills || image.Brokers[0].ID != 2 {
		t.Errorf("not sorted: topics %v, brokers %v", image.Topics, image.Brokers)
	}
	if image.Topic("orders") != orders || image.TopicByID(ID{2}) != bills {
		t.Error("a topic is not found by its name or id")
	}
	if image.Topic("order") != nil || image.TopicByID(ID{3}) != nil {
		t.Error("a topic is found that is not there")
	}
	if b, ok := image.Broker(7); !ok || b.Host != "b7" {
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
