package metadata

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/brokerconfig"
)

func clusterSpec(t *testing.T, spec string) *v1alpha1.LogCluster {
	t.Helper()
	var cluster v1alpha1.LogCluster
	if err := yaml.UnmarshalStrict([]byte("spec: "+spec), &cluster); err != nil {
		t.Fatal(err)
	}
	return &cluster
}

func setTo(name, value string) PropertyChange {
	return PropertyChange{Name: name, Op: PropertySet, Value: value}
}

// TestValuesOfGroupConfigs checks that the same values are accepted and rejected as by Apache Kafka
// 4.3.1 with default settings, and with the same error messages.
func TestValuesOfGroupConfigs(t *testing.T) {
	for _, test := range []struct {
		change PropertyChange
		fault  string // text of the error; "" if the value is accepted
	}{
		{setTo(groupInterval, "6000"), ""}, {setTo(groupInterval, "5000"), ""},
		{setTo(groupInterval, "15000"), ""}, {setTo(groupInterval, " 5000 "), ""},
		{setTo(groupInterval, "4999"),
			groupInterval + " must be greater than or equal to group.consumer.min.heartbeat.interval.ms"},
		{setTo(groupInterval, "15001"),
			groupInterval + " must be less than or equal to group.consumer.max.heartbeat.interval.ms"},
		{setTo(groupInterval, "0"), "value must be at least 1"},
		{setTo(groupInterval, "-1"), "value must be at least 1"},
		{setTo(groupInterval, "x"), "not a number of type int"},
		{setTo(groupInterval, ""), "not a number of type int"},
		{setTo(groupInterval, "1.5"), "not a number of type int"},
		{setTo(groupInterval, "99999999999"), "not a number of type int"},
		{setTo(groupAssignment, "0"), ""}, {setTo(groupAssignment, "15000"), ""},
		{setTo(groupAssignment, "-1"), "value must be at least 0"},
		{setTo(groupAssignment, "15001"),
			groupAssignment + " must be less than or equal to group.consumer.max.assignment.interval.ms"},
		{setTo(groupSession, "45000"), ""}, {setTo(groupSession, "60000"), ""},
		{setTo(groupSession, "44999"),
			groupSession + " must be greater than or equal to group.consumer.min.session.timeout.ms"},
		{setTo(groupSession, "60001"),
			groupSession + " must be less than or equal to group.consumer.max.session.timeout.ms"},
		{setTo("foo", "1"), "unknown group config name: foo"},
		{PropertyChange{Name: "foo", Op: PropertyDelete}, ""},
		{PropertyChange{Name: groupSession, Op: PropertyDelete, Value: "x"}, ""},
		{PropertyChange{Name: groupSession, Op: PropertyAppend, Value: "50000"}, "is not list"},
		{PropertyChange{Name: groupSession, Op: PropertySubtract, Value: "50000"}, "is not list"},
	} {
		_, err := GroupOverride{}.Altered(Groups{}, []PropertyChange{test.change}, false)
		if test.fault == "" && err != nil {
			t.Errorf("%+v: %v", test.change, err)
		}
		if test.fault != "" && (!errors.Is(err, ErrInvalidSettings) ||
			!strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%+v: got error %v, want one that contains %q", test.change, err, test.fault)
		}
	}
}

// TestBoundsOfGroupConfigs checks that the LogCluster's bounds apply. Without bounds, the
// LogCluster's own value extends Kafka's bounds.
func TestBoundsOfGroupConfigs(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "1000 0-15000, 5000 5000-15000, 45000 45000-60000",
		`{groups: {consumerAssignmentInterval: 0s}}`: "0 0-15000, 5000 5000-15000, " +
			"45000 45000-60000",
		`{groups: {consumerHeartbeatInterval: 1s, consumerSessionTimeout: 10s}}`: "1000 0-15000, 1000 1000-15000, " +
			"10000 10000-60000",
		`{groups: {consumerHeartbeatInterval: 20s, consumerSessionTimeout: 2m}}`: "1000 0-15000, 20000 5000-20000, " +
			"120000 45000-120000",
		`{groups: {minConsumerHeartbeatInterval: 2s, maxConsumerHeartbeatInterval: 7s,
			minConsumerSessionTimeout: 3s, maxConsumerSessionTimeout: 1h}}`: "1000 0-15000, 5000 2000-7000, " +
			"45000 3000-3600000",
	} {
		var got []string
		for _, c := range GroupConfigs(ResolveGroups(clusterSpec(t, spec)), GroupOverride{}) {
			got = append(got, fmt.Sprintf("%d %d-%d", c.Value.Milliseconds(), c.Min.Milliseconds(),
				c.Max.Milliseconds()))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %s", spec, got, want)
		}
	}
	wide := Groups{ConsumerIntervalMax: time.Hour, ConsumerSessionMin: time.Second}
	for _, changes := range [][]PropertyChange{
		{setTo(groupInterval, "45000")}, {setTo(groupSession, "5000")},
		{setTo(groupSession, "9000"), setTo(groupInterval, "9001")},
	} {
		if _, err := (GroupOverride{}).Altered(wide, changes, false); err == nil ||
			!strings.Contains(err.Error(), "must be greater than consumer.heartbeat.interval.ms") {
			t.Errorf("%+v: got error %v", changes, err)
		}
	}
}

func TestSourcesOfGroupConfigs(t *testing.T) {
	cluster := Groups{ConsumerSession: 50 * time.Second}
	configs := GroupConfigs(cluster, GroupOverride{ConsumerInterval: 7 * time.Second,
		ConsumerAssignment: -1})
	for i, want := range []GroupConfig{
		{Set: true, Value: 0, Cluster: time.Second, Default: time.Second}, // assignment interval
		{Set: true, Value: 7 * time.Second, Cluster: 5 * time.Second, Default: 5 * time.Second},
		{Value: 50 * time.Second, ClusterSet: true, Cluster: 50 * time.Second,
			Default: 45 * time.Second},
	} {
		got := configs[i]
		want.Name, want.Doc, want.BrokerName = got.Name, got.Doc, got.BrokerName
		want.Min, want.Max = got.Min, got.Max
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if got := configs[1].BrokerName; got != "group.consumer.heartbeat.interval.ms" {
		t.Errorf("got %s as the broker's setting of the heartbeat interval", got)
	}
}

// TestAlteredGroupInResource checks the resource after each of several changes of groups. Each
// change starts from the previous one's resource.
func TestAlteredGroupInResource(t *testing.T) {
	cluster := clusterSpec(t, `{groups: {maxMembers: 9, overrides: [
		{group: a, consumerSessionTimeout: 50s}]}}`)
	session := func(seconds int) GroupOverride {
		return GroupOverride{ConsumerSession: time.Duration(seconds) * time.Second}
	}
	for i, step := range []struct {
		group      string
		properties []PropertyChange
		replace    bool
		want       map[string]GroupOverride
	}{
		{"b", []PropertyChange{setTo(groupInterval, "6000")}, false, map[string]GroupOverride{
			"a": session(50), "b": {ConsumerInterval: 6 * time.Second}}},
		{"b", []PropertyChange{setTo(groupSession, "46000")}, true,
			map[string]GroupOverride{"a": session(50), "b": session(46)}},
		{"a", []PropertyChange{{Name: groupSession, Op: PropertyDelete}}, false,
			map[string]GroupOverride{"b": session(46)}},
		{"c", []PropertyChange{{Name: groupSession, Op: PropertyDelete}}, false,
			map[string]GroupOverride{"b": session(46)}},
		{"b", []PropertyChange{setTo(groupAssignment, "0")}, true,
			map[string]GroupOverride{"b": {ConsumerAssignment: -1}}},
		{"b", []PropertyChange{setTo(groupAssignment, "20")}, true,
			map[string]GroupOverride{"b": {ConsumerAssignment: 20 * time.Millisecond}}},
		{"b", nil, true, nil},
	} {
		before := cluster.DeepCopy()
		altered, err := alteredGroup(cluster, ClusterChange{Group: step.group,
			Properties: step.properties, Replace: step.replace})
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := ResolveGroupOverrides(altered); !maps.Equal(got, step.want) {
			t.Errorf("step %d: got %+v, want %+v", i, got, step.want)
		}
		if *altered.Spec.Groups.MaxMembers != 9 {
			t.Errorf("step %d: another setting changed", i)
		}
		if !reflect.DeepEqual(before, cluster) {
			t.Errorf("step %d: the change modified its argument", i)
		}
		cluster = altered
	}
	if len(cluster.Spec.Groups.Overrides) != 0 {
		t.Errorf("entries without settings remain: %+v", cluster.Spec.Groups.Overrides)
	}
}

func TestAlteredGroupLimits(t *testing.T) {
	change := ClusterChange{Group: "one-more",
		Properties: []PropertyChange{setTo(groupSession, "46000")}}
	full := clusterSpec(t, `{groups: {}}`)
	for i := range groupOverridesMax {
		full.Spec.Groups.Overrides = append(full.Spec.Groups.Overrides,
			v1alpha1.GroupOverride{Group: fmt.Sprint("g", i)})
	}
	if _, err := alteredGroup(full, change); !errors.Is(err, ErrInvalidSettings) {
		t.Errorf("in a full list: got error %v", err)
	}
	change.Group = strings.Repeat("g", groupIDBytesMax+1)
	if _, err := alteredGroup(clusterSpec(t, `{}`), change); !errors.Is(err, ErrInvalidSettings) {
		t.Errorf("with a long id: got error %v", err)
	}
	change.Group = strings.Repeat("g", groupIDBytesMax)
	if altered, err := alteredGroup(clusterSpec(t, `{}`), change); err != nil ||
		len(ResolveGroupOverrides(altered)) != 1 {
		t.Errorf("with the longest id in a LogCluster without groups: got error %v", err)
	}
}

// TestBoundsOfGroupConfigsAreDescribed checks that DescribeConfigs of a broker returns the bounds
// that apply to group configs.
func TestBoundsOfGroupConfigsAreDescribed(t *testing.T) {
	for _, spec := range []string{
		`{}`, `{groups: {consumerHeartbeatInterval: 1s, consumerSessionTimeout: 10s}}`,
		`{groups: {consumerHeartbeatInterval: 20s, consumerSessionTimeout: 2m}}`,
		`{groups: {minConsumerHeartbeatInterval: 2s, maxConsumerSessionTimeout: 1h}}`,
	} {
		cluster, described := clusterSpec(t, spec), map[string]string{}
		for _, v := range brokerconfig.Describe(ClusterProperties(cluster)) {
			described[v.Name] = v.Value
		}
		for _, c := range GroupConfigs(ResolveGroups(cluster), GroupOverride{}) {
			kind := strings.TrimPrefix(c.Name, "consumer.")
			for name, want := range map[string]time.Duration{
				c.BrokerName: c.Cluster, "group.consumer.min." + kind: c.Min,
				"group.consumer.max." + kind: c.Max,
			} {
				if described[name] != fmt.Sprint(want.Milliseconds()) {
					t.Errorf("%s: %s is described as %s, applies as %v", spec, name,
						described[name], want)
				}
			}
		}
	}
}
