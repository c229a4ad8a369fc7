package handler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

const (
	groupResource   = kmsg.ConfigResourceTypeGroupConfig
	metricsResource = kmsg.ConfigResourceTypeClientMetrics
	groupAssignment = "consumer.assignment.interval.ms"
	groupInterval   = "consumer.heartbeat.interval.ms"
	groupSession    = "consumer.session.timeout.ms"
)

// describedConfigs returns the configs of a resource, by config name, in the format "value source
// [synonyms]".
func (b *broker) describedConfigs(version int16, kind kmsg.ConfigResourceType,
	name string, only ...string) (code int16, configs map[string]string) {
	b.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms = true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name,
		ConfigNames: only}}
	resource := ask[*kmsg.DescribeConfigsResponse](b, version, req).Resources[0]
	if resource.ResourceType != kind || resource.ResourceName != name {
		b.t.Errorf("the answer names resource %d %q", resource.ResourceType, resource.ResourceName)
	}
	configs = map[string]string{}
	for _, c := range resource.Configs {
		text := fmt.Sprint(*c.Value, " ", c.Source, " [")
		for _, s := range c.ConfigSynonyms {
			text += fmt.Sprint(s.Source, ":", s.Name, "=", *s.Value, " ")
		}
		configs[c.Name] = strings.TrimSpace(text) + "]"
		if c.ReadOnly || c.IsSensitive || version >= 3 && c.ConfigType == kmsg.ConfigTypeUnknown {
			b.t.Errorf("config %+v", c)
		}
	}
	return resource.ErrorCode, configs
}

// alterConfig changes one config with IncrementalAlterConfigs, and returns the error.
func (b *broker) alterConfig(kind kmsg.ConfigResourceType, name, config string, value *string,
	op kmsg.IncrementalAlterConfigOp) (int16, string) {
	b.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind,
		ResourceName: name, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
			{Name: config, Value: value, Op: op}}}}
	resource := ask[*kmsg.IncrementalAlterConfigsResponse](b, 1, req).Resources[0]
	if resource.ErrorMessage == nil {
		return resource.ErrorCode, ""
	}
	return resource.ErrorCode, *resource.ErrorMessage
}

func (b *broker) setGroup(name, config, value string) (int16, string) {
	b.t.Helper()
	return b.alterConfig(groupResource, name, config, &value, kmsg.IncrementalAlterConfigOpSet)
}

// TestGroupConfigsAreDescribedAtEveryVersion checks that a config's source (the group, the
// LogCluster or Kafka's default) is reported as in Apache Kafka 4.3.1.
func TestGroupConfigsAreDescribedAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyDescribeConfigs, func(t *testing.T, b *broker, version int16) {
		b.cluster = &v1alpha1.LogCluster{}
		b.cluster.Spec.Groups = &v1alpha1.Groups{
			ConsumerSessionTimeout: &metav1.Duration{Duration: 50 * time.Second},
			Overrides: []v1alpha1.GroupOverride{{Group: "a b",
				ConsumerHeartbeatInterval: &metav1.Duration{Duration: 6 * time.Second}}},
		}
		must(t, b.changed())
		code, got := b.describedConfigs(version, groupResource, "a b")
		want := map[string]string{
			groupAssignment: "1000 DEFAULT_CONFIG [DEFAULT_CONFIG:group." + groupAssignment + "=1000]",
			groupInterval: "6000 GROUP_CONFIG [GROUP_CONFIG:" + groupInterval +
				"=6000 DEFAULT_CONFIG:group." + groupInterval + "=5000]",
			groupSession: "50000 DYNAMIC_DEFAULT_BROKER_CONFIG [DYNAMIC_DEFAULT_BROKER_CONFIG:group." +
				groupSession + "=50000 DEFAULT_CONFIG:group." + groupSession + "=45000]",
		}
		if code != 0 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got error %d, %v\nwant %v", code, got, want)
		}
		if code, got := b.describedConfigs(version, groupResource, "other", groupInterval,
			"nope"); code != 0 ||
			len(got) != 1 || !strings.HasPrefix(got[groupInterval], "5000 DEFAULT_CONFIG") {
			t.Errorf("a group that does not exist: error %d, %v", code, got)
		}
		if _, got := b.describedConfigs(version, groupResource, "g", []string{}...); len(got) != 3 {
			t.Errorf("with an empty list of names: got %v, want all configs", got)
		}
		if code, got := b.describedConfigs(version, groupResource, ""); code != 42 || len(got) != 0 {
			t.Errorf("without a name: error %d, %v", code, got)
		}
	})
}

// TestGroupConfigsAreAltered checks that a series of changes has the same results as in Apache
// Kafka 4.3.1.
func TestGroupConfigsAreAltered(t *testing.T) {
	b := newBroker(t)
	b.lazy = true // the response must wait until the metadata image contains the change
	for _, step := range []struct {
		config, value string
		code          int16
	}{
		{groupInterval, "6000", 0}, {groupInterval, "4999", 40}, {groupInterval, "15001", 40},
		{groupInterval, "x", 40},
		{groupSession, "60000", 0}, {groupSession, "60001", 40}, {"foo", "1", 40},
		{groupAssignment, "2000", 0}, {groupAssignment, "15001", 40}, {groupAssignment, "-1", 40},
		{groupAssignment, "0", 0},
	} {
		if code, text := b.setGroup("g", step.config, step.value); code != step.code {
			t.Errorf("%s=%s: got error %d %q, want %d", step.config, step.value, code, text,
				step.code)
		}
	}
	if code, got := b.describedConfigs(4, groupResource, "g"); code != 0 ||
		!strings.HasPrefix(got[groupInterval], "6000 GROUP_CONFIG") ||
		!strings.HasPrefix(got[groupSession], "60000 GROUP_CONFIG") {
		t.Errorf("got error %d, %v", code, got)
	}
	remove := kmsg.IncrementalAlterConfigOpDelete
	for _, name := range []string{groupInterval, "foo"} {
		if code, text := b.alterConfig(groupResource, "g", name, nil, remove); code != 0 {
			t.Errorf("delete %s: error %d %q", name, code, text)
		}
	}
	value := "6000"
	for op, want := range map[kmsg.IncrementalAlterConfigOp]int16{
		kmsg.IncrementalAlterConfigOpAppend:   40,
		kmsg.IncrementalAlterConfigOpSubtract: 40,
	} {
		if code, _ := b.alterConfig(groupResource, "g", groupInterval, &value, op); code != want {
			t.Errorf("operation %v: got error %d, want %d", op, code, want)
		}
	}
	if code, _ := b.alterConfig(groupResource, "g", groupInterval, nil,
		kmsg.IncrementalAlterConfigOpSet); code != 42 {
		t.Errorf("null value: got error %d, want 42", code)
	}
	if code, _ := b.setGroup("", groupInterval, "6000"); code != 42 {
		t.Errorf("without a name: got error %d, want 42", code)
	}
	_, got := b.describedConfigs(4, groupResource, "g")
	if !strings.HasPrefix(got[groupInterval], "5000 DEFAULT_CONFIG") ||
		!strings.HasPrefix(got[groupSession], "60000 GROUP_CONFIG") {
		t.Errorf("after the deletion: %v", got)
	}
}

// TestAlterConfigsReplacesGroupConfigs checks that AlterConfigs resets the configs that are not in
// the request, and that a request with validateOnly changes nothing.
func TestAlterConfigsReplacesGroupConfigs(t *testing.T) {
	everyVersion(t, api.KeyAlterConfigs, func(t *testing.T, b *broker, version int16) {
		b.setGroup("g", groupInterval, "6000")
		replace := func(validate bool, configs ...kmsg.AlterConfigsRequestResourceConfig) int16 {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: groupResource,
				ResourceName: "g", Configs: configs}}
			return ask[*kmsg.AlterConfigsResponse](b, version, req).Resources[0].ErrorCode
		}
		value, wrong := "50000", "1"
		to := kmsg.AlterConfigsRequestResourceConfig{Name: groupSession, Value: &value}
		if code := replace(true, to); code != 0 {
			t.Errorf("validate: error %d", code)
		}
		to.Value = &wrong
		if code := replace(true, to); code != 40 {
			t.Errorf("validate a wrong value: error %d, want 40", code)
		}
		want := metadata.GroupOverride{ConsumerInterval: 6 * time.Second}
		if got := b.image.Load().GroupOverrides["g"]; got != want {
			t.Errorf("after validation: got %+v, want %+v", got, want)
		}
		to.Value = &value
		if code := replace(false, to); code != 0 {
			t.Errorf("replace: error %d", code)
		}
		want = metadata.GroupOverride{ConsumerSession: 50 * time.Second}
		if got := b.image.Load().GroupOverrides["g"]; got != want {
			t.Errorf("after the change: got %+v, want %+v", got, want)
		}
		if code := replace(false); code != 0 || len(b.image.Load().GroupOverrides) != 0 {
			t.Errorf("reset: error %d, %+v", code, b.image.Load().GroupOverrides)
		}
	})
}

// TestAlteredGroupConfigsTakeEffect checks that the response to a member's next heartbeat contains
// the new interval.
func TestAlteredGroupConfigsTakeEffect(t *testing.T) {
	b := newBroker(t)
	b.topic("orders", nil)
	coordinated(t, b)
	beat := func(epoch int32) consumer.Answer {
		t.Helper()
		h := &consumer.Heartbeat{Group: "g", Member: "m", Epoch: epoch, Rebalance: time.Minute,
			Topics: []string{"orders"}, Owned: assignor.Assignment{}}
		a, err := b.groups.ConsumerHeartbeat(t.Context(), h)
		must(t, err)
		return a
	}
	joined := beat(consumer.EpochJoin)
	if joined.Interval != 5*time.Second {
		t.Errorf("before the change: interval %v", joined.Interval)
	}
	if code, text := b.setGroup("g", groupInterval, "7000"); code != 0 {
		t.Fatalf("error %d %s", code, text)
	}
	if a := beat(joined.Epoch); a.Interval != 7*time.Second {
		t.Errorf("after the change: interval %v, want 7s", a.Interval)
	}
}

func TestGroupConfigsWithReadOnlyAdminAPI(t *testing.T) {
	b := newBroker(t)
	b.policy.ReadOnly = true
	must(t, b.changed())
	if code, text := b.setGroup("g", groupInterval, "6000"); code != 44 ||
		!strings.Contains(text, "adminAPI: ReadOnly") {
		t.Errorf("group: got error %d %q, want POLICY_VIOLATION", code, text)
	}
	value := "1000"
	if code, _ := b.alterConfig(metricsResource, "m", "interval.ms", &value,
		kmsg.IncrementalAlterConfigOpSet); code != 44 {
		t.Errorf("client metrics: got error %d, want POLICY_VIOLATION", code)
	}
	if code, _ := b.describedConfigs(4, groupResource, "g"); code != 0 {
		t.Errorf("describe: got error %d", code)
	}
}

// TestClientMetricsConfigs checks that a subscription has Kafka's defaults, and that no
// subscription can be created.
func TestClientMetricsConfigs(t *testing.T) {
	b := newBroker(t)
	code, got := b.describedConfigs(4, metricsResource, "m")
	want := map[string]string{"interval.ms": "300000 DEFAULT_CONFIG []",
		"match": " DEFAULT_CONFIG []", "metrics": " DEFAULT_CONFIG []"}
	if code != 0 || len(got) != len(want) || got["interval.ms"] != want["interval.ms"] {
		t.Errorf("got error %d, %v, want %v", code, got, want)
	}
	if code, _ := b.describedConfigs(4, metricsResource, ""); code != 42 {
		t.Errorf("describe without a name: got error %d, want 42", code)
	}
	value := "1000"
	set, remove := kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete
	if code, text := b.alterConfig(metricsResource, "m", "interval.ms", &value, set); code != 42 ||
		!strings.Contains(text, "do not collect metrics of clients") {
		t.Errorf("set: got error %d %q", code, text)
	}
	if code, _ := b.alterConfig(metricsResource, "m", "interval.ms", nil, remove); code != 0 {
		t.Errorf("delete: got error %d", code)
	}
	if code, _ := b.alterConfig(metricsResource, "", "interval.ms", nil, remove); code != 42 {
		t.Errorf("delete without a name: got error %d, want 42", code)
	}
}

// TestUnknownConfigResourceTypes checks that the error is INVALID_REQUEST, as in Kafka, and that
// the response contains the type from the request.
func TestUnknownConfigResourceTypes(t *testing.T) {
	b := newBroker(t)
	value := "1"
	for _, kind := range []kmsg.ConfigResourceType{-1, 0, 1, 3, 5, 64, 127} {
		if code, got := b.describedConfigs(4, kind, "x"); code != 42 || len(got) != 0 {
			t.Errorf("describe type %d: got error %d, %v, want INVALID_REQUEST", kind, code, got)
		}
		if code, _ := b.alterConfig(kind, "x", "a", &value,
			kmsg.IncrementalAlterConfigOpSet); code != 42 {
			t.Errorf("alter type %d: got error %d, want INVALID_REQUEST", kind, code)
		}
	}
	for _, name := range []string{"", "bad name!"} {
		if code, _ := b.describedConfigs(4, kmsg.ConfigResourceTypeTopic, name); code != 17 {
			t.Errorf("topic %q: got error %d, want INVALID_TOPIC_EXCEPTION", name, code)
		}
	}
}

// TestListConfigResourcesAtEveryVersion checks that version 0 lists only client metrics
// subscriptions. Version 1 lists the requested types in Kafka's order, or all types.
func TestListConfigResourcesAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyListConfigResources, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		b.setGroup("g", groupInterval, "6000")
		b.setGroup("a", groupSession, "50000")
		list := func(types ...int8) (int16, []string) {
			req := kmsg.NewPtrListConfigResourcesRequest()
			req.ResourceTypes = types
			answer := ask[*kmsg.ListConfigResourcesResponse](b, version, req)
			var found []string
			for _, r := range answer.ConfigResources {
				found = append(found, fmt.Sprint(r.Type, ":", r.Name))
			}
			return answer.ErrorCode, found
		}
		if version == 0 {
			if code, found := list(); code != 0 || len(found) != 0 {
				t.Errorf("got error %d, %v, want no client metrics subscriptions", code, found)
			}
			return
		}
		all := []string{"32:a", "32:g", "8:1", "8:3", "4:1", "4:3", "2:tickets"}
		for _, test := range []struct {
			types []int8
			code  int16
			want  []string
		}{
			{nil, 0, all}, {[]int8{2, 4, 8, 16, 32}, 0, all}, {[]int8{16}, 0, nil},
			{[]int8{32}, 0, all[:2]}, {[]int8{8}, 0, all[2:4]}, {[]int8{4}, 0, all[4:6]},
			{[]int8{2, 32, 2}, 0, []string{"32:a", "32:g", "2:tickets"}},
			{[]int8{0}, 35, nil}, {[]int8{64}, 35, nil}, {[]int8{32, 99}, 35, nil},
		} {
			if code, found := list(test.types...); code != test.code ||
				!slices.Equal(found, test.want) {
				t.Errorf("types %v: got error %d, %v, want %d, %v", test.types, code, found,
					test.code, test.want)
			}
		}
	})
}

// TestDescribeLogDirsOfChosenTopics checks that a null list of topics means all topics, and an
// empty list none. As in Kafka, the response omits topics and partitions that this broker does not
// hold.
func TestDescribeLogDirsOfChosenTopics(t *testing.T) {
	everyVersion(t, api.KeyDescribeLogDirs, func(t *testing.T, b *broker, version int16) {
		b.topic("orders", nil)
		b.topic("tickets", nil)
		none := []kmsg.DescribeLogDirsRequestTopic{}
		chosen := func(topic string, partitions ...int32) []kmsg.DescribeLogDirsRequestTopic {
			return append(none, kmsg.DescribeLogDirsRequestTopic{Topic: topic,
				Partitions: partitions})
		}
		for i, test := range []struct {
			topics []kmsg.DescribeLogDirsRequestTopic
			want   string
		}{
			{nil, "orders-0 tickets-0 "}, {none, ""}, {chosen("tickets", 0), "tickets-0 "},
			{chosen("tickets", 7, 0), "tickets-0 "}, {chosen("tickets"), ""},
			{chosen("unknown", 0), ""},
		} {
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Topics = test.topics
			answer := ask[*kmsg.DescribeLogDirsResponse](b, version, req)
			if answer.ErrorCode != 0 || len(answer.Dirs) != 1 || answer.Dirs[0].ErrorCode != 0 ||
				answer.Dirs[0].Dir != "/data" {
				t.Fatalf("request %d: got %+v", i, answer)
			}
			var found []string
			for _, topic := range answer.Dirs[0].Topics {
				for _, p := range topic.Partitions {
					found = append(found, fmt.Sprintf("%s-%d ", topic.Topic, p.Partition))
				}
			}
			slices.Sort(found)
			if got := strings.Join(found, ""); got != test.want {
				t.Errorf("request %d: got %q, want %q", i, got, test.want)
			}
		}
	})
}
