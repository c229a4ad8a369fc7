package topicconfig

import (
	"errors"
	"strings"
	"testing"
)

// TestValuesThatAskForNothingAreAccepted checks Kafka 4.4 properties that have no counterpart here.
// Values that request no effect are accepted, and other values are rejected with the reason.
func TestValuesThatAskForNothingAreAccepted(t *testing.T) {
	for property, values := range map[string][2][]string{
		"remote.storage.enable":                   {{"false", " False"}, {"true", "no"}},
		"local.retention.ms":                      {{"-2"}, {"1000", "-1"}},
		"local.retention.bytes":                   {{"-2"}, {"1000"}},
		"remote.log.copy.disable":                 {{"true", "false"}, {"maybe"}},
		"remote.log.delete.on.disable":            {{"true", "false"}, {""}},
		"remote.copy.lag.ms":                      {{"0", "-1", "5000"}, {"-2", "x"}},
		"remote.copy.lag.bytes":                   {{"0", "-1"}, {"-2"}},
		"errors.deadletterqueue.group.enable":     {{"false"}, {"true"}},
		"leader.replication.throttled.replicas":   {{"", "*", "0:1,1:2"}, {"x", "0", "0:1,"}},
		"follower.replication.throttled.replicas": {{"none", "0:1, 1:2"}, {"0:a"}},
	} {
		if !Ignored(property) {
			t.Errorf("%s is not ignored", property)
		}
		for _, value := range values[0] {
			s := Default()
			if err := s.Set(property, value); err != nil || s != Default() {
				t.Errorf("%s=%q: got error %v and settings %+v", property, value, err, s)
			}
		}
		for _, value := range values[1] {
			s := Default()
			err := s.Set(property, value)
			if err == nil || errors.Is(err, ErrUnknownProperty) ||
				!strings.Contains(err.Error(), property) {
				t.Errorf("%s=%q: got error %v", property, value, err)
			}
		}
	}
	s := Default()
	if list, err := s.Listed("leader.replication.throttled.replicas", "0:1", true); err != nil ||
		list != "0:1" {
		t.Errorf("append: got %q, error %v", list, err)
	}
}
