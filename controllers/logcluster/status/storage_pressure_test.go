package status

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func volumes(levels ...string) []v1alpha1.BrokerStatus {
	brokers := make([]v1alpha1.BrokerStatus, len(levels))
	for i, level := range levels {
		brokers[i].ID = int32(i)
		if level != "" {
			brokers[i].Volume = &v1alpha1.BrokerVolume{Pressure: level, UsedPercent: 83,
				TotalBytes: 10 << 30, ReclaimableBytes: 3 << 29}
		}
	}
	return brokers
}

func TestStoragePressureNamesTheBrokers(t *testing.T) {
	for _, test := range []struct {
		levels []string
		reason string
		names  []string
		omits  string
	}{
		{[]string{"", "None", "None"}, v1alpha1.ReasonEnoughSpace, nil, "Broker"},
		{[]string{"Warn", "None", "Warn"}, "Warn",
			[]string{"Broker 0 is at level Warn: it uses 83% of 10Gi", "reclaim 1.5Gi; Broker 2 is",
				"Shorten retentions"}, "Broker 1"},
		{[]string{"Warn", "Reject", "Clean", "None"}, "Reject",
			[]string{"Broker 1 is at level Reject", "Broker 2 is at level Clean", "Produce requests",
				"Broker 0 is at level Warn"}, "Broker 3"},
		{[]string{"Reserve", "None"}, "Reserve", []string{"Broker 0", "All records"}, "Broker 1"},
		{slices.Repeat([]string{"Reject"}, 1000), "Reject", []string{"Broker 0 ", "Broker 19 ",
			"; 980 further brokers. Produce"}, "Broker 20"},
	} {
		got := storageCondition(volumes(test.levels...))
		if got.Reason != test.reason ||
			(got.Status == metav1.ConditionTrue) != (test.reason != v1alpha1.ReasonEnoughSpace) {
			t.Errorf("%v: condition %+v, want reason %s", test.levels, got, test.reason)
		}
		for _, name := range test.names {
			if !strings.Contains(got.Message, name) {
				t.Errorf("%v: message %q does not contain %q", test.levels, got.Message, name)
			}
		}
		if strings.Contains(got.Message, test.omits) {
			t.Errorf("%v: message %q contains %q", test.levels, got.Message, test.omits)
		}
	}
}

func TestRiseOfStoragePressureIsAnEvent(t *testing.T) {
	conditions := func(levels ...string) []metav1.Condition {
		return []metav1.Condition{storageCondition(volumes(levels...))}
	}
	for _, test := range []struct {
		before, after []metav1.Condition
		rose          bool
	}{
		{nil, conditions("None"), false},
		{nil, conditions("Warn"), true},
		{conditions("None"), conditions("Warn"), true},
		{conditions("Warn"), conditions("Warn", "Warn"), false},
		{conditions("Clean"), conditions("Reject"), true},
		{conditions("Reject"), conditions("Clean"), false},
	} {
		if got := pressureRose(test.before, test.after) != nil; got != test.rose {
			t.Errorf("from %v to %v: rose %t, want %t", test.before, test.after, got, test.rose)
		}
	}
}
