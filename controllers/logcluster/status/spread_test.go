package status

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestSpreadNamesPartitionsAndRacks(t *testing.T) {
	for name, test := range map[string]struct {
		racks    []string // rack of each broker
		replicas [][]int32
		reason   string // "": no condition
		contains string
	}{
		"no racks": {[]string{"", ""}, [][]int32{{0, 1}}, "", ""},
		"one rack": {[]string{"a", "a"}, [][]int32{{0, 1}}, "", ""},
		"spread":   {[]string{"a", "b", "c"}, [][]int32{{0, 1, 2}, {2, 0}}, "Spread", "a b c"},
		"one short": {[]string{"a", "a", "b"}, [][]int32{{0, 1}, {0, 2}}, "ReplicasNotSpread",
			"orders/0"},
		"three replicas in two racks": {[]string{"a", "a", "b"}, [][]int32{{0, 1, 2}}, "Spread", "a b"},
		"single replica":              {[]string{"a", "b"}, [][]int32{{0}}, "Spread", "a b"},
		"replica on an unknown rack":  {[]string{"a", "", "b"}, [][]int32{{0, 1}}, "Spread", "a b"},
		"brokers": {[]string{"a", "a", "a", "b"}, [][]int32{{0, 3}}, "BrokersNotSpread",
			"Rack a has 3 brokers, and rack b only 1."},
	} {
		racks := map[int32]string{}
		for id, rack := range test.racks {
			if rack != "" {
				racks[int32(id)] = rack
			}
		}
		assignments := map[string][]int32{}
		for i, replicas := range test.replicas {
			assignments[fmt.Sprintf("orders/%d", i)] = replicas
		}
		got := spreadCondition(racks, maps.All(assignments))
		switch {
		case got == nil:
			if test.reason != "" {
				t.Errorf("%s: no condition, want %s", name, test.reason)
			}
		case got.Type != v1alpha1.ConditionSpread || got.Reason != test.reason ||
			(got.Status == "True") != (test.reason == v1alpha1.ReasonSpread) ||
			!strings.Contains(got.Message, test.contains):
			t.Errorf("%s: condition %+v, want %s with %q", name, *got, test.reason, test.contains)
		}
	}
}
