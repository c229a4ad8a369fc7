package metadata

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// threeBrokers describes brokers 0 to 2. Broker 2 is down.
var threeBrokers = Brokers{
	Exists: func(id int32) bool { return id >= 0 && id < 3 },
	Up:     func(id int32) bool { return id < 2 },
}

func TestCheckAssignment(t *testing.T) {
	for _, test := range []struct {
		assigned [][]int32
		replicas int
		words    string // words in the error; "" if the assignment is valid
	}{
		{nil, -1, ""},
		{[][]int32{{0, 1}, {2, 0}}, 2, ""},
		{[][]int32{{0}, {}}, 1, "partition 8 has no replicas"},
		{[][]int32{{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}}, 16, "at most 15"},
		{[][]int32{{0, 0}}, 2, "broker 0 is named more than once (partition 7)"},
		{[][]int32{{0}, {3}}, 1, "broker 3 does not exist (partition 8)"},
		{[][]int32{{-1}}, 1, "broker -1 does not exist"},
		{[][]int32{{0, 1}, {0}}, 2, "partition 8 has 1 replicas, the others have 2"},
		{[][]int32{{2}}, 1, "all brokers of partition 7 are down"},
	} {
		err := CheckAssignment(test.assigned, 7, test.replicas, threeBrokers)
		if (err == nil) != (test.words == "") || err != nil &&
			(!errors.Is(err, ErrInvalidAssignment) || !strings.Contains(err.Error(), test.words)) {
			t.Errorf("%v: error %v, want %q", test.assigned, err, test.words)
		}
	}
}

// TestGrownTopicKeepsEarlierEntries checks that the second of two changes in succession keeps the
// entries of the first. At that time, the operator may not have created the partitions of the first
// change yet.
func TestGrownTopicKeepsEarlierEntries(t *testing.T) {
	created, err := TopicResource(NewTopic{Name: "t", Partitions: 2, Replicas: 1,
		Assignment: [][]int32{{1}, {0}}}, "demo", nil)
	if err != nil {
		t.Fatal(err)
	}
	// This entry is for a partition that does not exist yet. It is replaced.
	created.Spec.InitialReplicas = append(created.Spec.InitialReplicas,
		v1alpha1.InitialReplicas{Partition: 2, Replicas: []int32{0}})
	grown, err := GrownTopic(created, NewPartitions{Count: 4, Assignment: [][]int32{{1}, {2}}},
		nil, Brokers{threeBrokers.Exists, threeBrokers.Exists})
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.InitialReplicas{{Partition: 0, Replicas: []int32{1}},
		{Partition: 1, Replicas: []int32{0}}, {Partition: 2, Replicas: []int32{1}},
		{Partition: 3, Replicas: []int32{2}}}
	if diff := cmp.Diff(want, grown.Spec.InitialReplicas); diff != "" || grown.Spec.Partitions != 4 {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if len(created.Spec.InitialReplicas) != 3 || created.Spec.InitialReplicas[2].Replicas[0] != 0 {
		t.Error("GrownTopic changed its argument")
	}
	if _, err := GrownTopic(created, NewPartitions{Count: 4, Assignment: [][]int32{{1}}}, nil,
		threeBrokers); !errors.Is(err, ErrInvalidAssignment) {
		t.Errorf("one assignment for two partitions: error %v", err)
	}
	if _, err := GrownTopic(&v1alpha1.Topic{}, NewPartitions{Count: 4}, nil,
		threeBrokers); !errors.Is(err, ErrTopicNotFound) {
		t.Errorf("a Topic whose partitions are not set yet: error %v", err)
	}
}

func TestInitialReplicasOfNewPartitionsAreChecked(t *testing.T) {
	isNew := func(index int32) bool { return index >= 1 && index < 4 }
	for entries, words := range map[string]string{
		"[{partition: 1, replicas: [2, 0]}, {partition: 3, replicas: [0, 1]}]": "",
		// Partition 0 already exists, and partition 4 is not needed yet.
		"[{partition: 0, replicas: [9]}, {partition: 4, replicas: [9]}]": "",
		"[{partition: 1, replicas: [0, 1]}, {partition: 1, replicas: [1, 2]}]": "spec.initialReplicas[1]." +
			"partition: Duplicate value: 1",
		"[{partition: 1, replicas: [0]}]": "spec.initialReplicas[0].replicas: Invalid value: [0]: 1 " +
			"brokers are named, but the topic has 2 replicas",
		"[{partition: 1, replicas: [0, 3]}]": "broker 3 does not exist",
		"[{partition: 1, replicas: [1, 1]}]": "broker 1 is named more than once",
	} {
		var spec v1alpha1.TopicSpec
		parseYAML(t, "{replicas: 2, initialReplicas: "+entries+"}", &spec)
		got, err := InitialReplicas(&spec, nil, 3, isNew)
		if (err == nil) != (words == "") || err != nil &&
			(!errors.Is(err, ErrInvalidAssignment) || !strings.Contains(err.Error(), words)) {
			t.Errorf("%s: error %v, want %q", entries, err, words)
		}
		for index, ids := range got {
			if !isNew(index) || len(ids) != 2 {
				t.Errorf("%s: partition %d gets %v", entries, index, ids)
			}
		}
	}
}

func TestNewTopicPartitions(t *testing.T) {
	var cluster v1alpha1.LogCluster
	parseYAML(t, "{spec: {topicDefaults: {partitions: 6}}}", &cluster)
	var groups v1alpha1.LogCluster
	parseYAML(t, "{spec: {topicDefaults: {replicas: 2}, groups: {offsetsTopic: {partitions: 4}}}}",
		&groups)
	for _, test := range []struct {
		topic   string
		cluster *v1alpha1.LogCluster
		want    int32
	}{
		{"orders", nil, 1}, {"orders", &v1alpha1.LogCluster{}, 1}, {"orders", &groups, 1},
		{"orders", &cluster, 6}, {"__consumer_offsets", &cluster, 50},
		{"__consumer_offsets", nil, 50}, {"__consumer_offsets", &groups, 4},
		{"__transaction_state", &groups, 50},
	} {
		if got := NewTopicPartitions(test.topic, test.cluster); got != test.want {
			t.Errorf("%s: got %d, want %d", test.topic, got, test.want)
		}
	}
	request := NewTopic{Name: "orders", Partitions: -1, Replicas: -1}
	if resource, err := TopicResource(request, "demo", &cluster); err != nil ||
		resource.Spec.Partitions != 6 {
		t.Errorf("TopicResource: %+v, error %v, want 6 partitions", resource, err)
	}
}
