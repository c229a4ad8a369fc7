package console

import (
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

// TestUnknownGarbageIsNotZero checks that the garbage of a topic or a broker is unknown, and not 0,
// if the garbage of any of its partitions is unknown.
func TestUnknownGarbageIsNotZero(t *testing.T) {
	known := int64(1 << 20)
	answersWith := func(second *report.Compaction) remote.Answers {
		answers := remote.Answers{Asked: 1}
		answers.Placement.Brokers = []report.BrokerHost{{Broker: 0}}
		for i, c := range []*report.Compaction{{ReclaimableBytes: &known}, second} {
			answers.Placement.Partitions = append(answers.Placement.Partitions,
				report.PlacedPartition{Topic: "t", Partition: int32(i), Replicas: []int32{0}})
			if c != nil {
				answers.Partitions = append(answers.Partitions, report.Partition{Topic: "t",
					Partition: int32(i), Leader: true, Compaction: c})
			}
		}
		return answers
	}
	for name, test := range map[string]struct {
		second        *report.Compaction
		topic, broker bool
	}{
		"known":        {&report.Compaction{ReclaimableBytes: &known}, true, true},
		"unknown":      {&report.Compaction{}, false, false},
		"not reported": {nil, false, true},
	} {
		answers := answersWith(test.second)
		topic, broker := topicsOf(answers, time.Now())[0], brokersOf(answers)[0]
		if topic.GarbageKnown != test.topic || broker.GarbageUnknown == test.broker {
			t.Errorf("%s: topic %+v, broker %+v", name, topic, broker)
		}
		for _, c := range overviewOf(answers, time.Now()).Cards {
			if c.Name == "Garbage still on disk" &&
				strings.Contains(c.Value+c.Note, "unknown in 1 topic") == test.topic {
				t.Errorf("%s: card %+v", name, c)
			}
		}
	}
}
