package brokerconfig

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// kafkaProperty is one line of testdata/kafka-4.3.1.txt.
type kafkaProperty struct{ name, kind string }

func kafkaProperties(t *testing.T) (all []kafkaProperty) {
	t.Helper()
	content, err := os.ReadFile("testdata/kafka-4.3.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); f[0] != "#" {
			all = append(all, kafkaProperty{f[0], f[1]})
		}
	}
	if len(all) != 340 {
		t.Fatalf("got %d settings, want the 340 of Kafka 4.3.1", len(all))
	}
	return all
}

func TestNamesAndTypesAreKafkas(t *testing.T) {
	kafka := map[string]string{}
	for _, p := range kafkaProperties(t) {
		kafka[p.name] = p.kind
	}
	kafka["max.decompressed.message.bytes"] = "int" // new in Kafka 4.4.0
	for _, p := range All() {
		if kind, known := kafka[p.Name]; !known {
			t.Errorf("Kafka has no setting %s", p.Name)
		} else if kind != p.Type {
			t.Errorf("%s: type %s, in Kafka %s", p.Name, p.Type, kind)
		}
		if p.Doc == "" || p.Alterable() && p.Field == "" {
			t.Errorf("%s has no documentation or no field", p.Name)
		}
	}
}

func TestEachTopicPropertyHasABrokerDefault(t *testing.T) {
	for _, p := range topicconfig.Default().Properties() {
		if OfTopic(p.Name) == nil {
			t.Errorf("%s has no broker setting", p.Name)
		}
	}
}

// TestFallbacksAreTheDefaults checks that the fallback log.retention.hours is the default of
// retention.ms in another unit. The fallback applies if log.retention.ms has no value.
func TestFallbacksAreTheDefaults(t *testing.T) {
	for name, value := range map[string]string{
		"log.retention.hours": "168", "log.roll.hours": "168", "log.roll.jitter.hours": "0",
	} {
		if p := Find(name); p.Default != value || p.Alterable() {
			t.Errorf("%s: got %+v", name, p)
		}
	}
	const week = 168
	if d := topicconfig.Default(); d.RetentionTime.Hours() != week || d.SegmentAge.Hours() != week ||
		d.SegmentJitter != 0 {
		t.Errorf("the defaults are %+v", d)
	}
}

func TestDescribe(t *testing.T) {
	values := map[string]Value{}
	for _, v := range Describe(map[string]string{
		"log.retention.ms": "1000", "group.max.size": "7", "log.cleaner.threads": "0",
	}) {
		values[v.Name] = v
	}
	for name, want := range map[string]Value{
		"log.retention.ms":        {Value: "1000", Set: true, Fallback: &Synonym{"log.retention.hours", "168"}},
		"log.roll.ms":             {Null: true, Fallback: &Synonym{"log.roll.hours", "168"}},
		"log.retention.minutes":   {Null: true},
		"group.max.size":          {Value: "7", Set: true, Fallback: &Synonym{"group.max.size", "2147483647"}},
		"group.consumer.max.size": {Value: "7", Fallback: &Synonym{"group.consumer.max.size", "7"}},
		"log.cleaner.enable":      {Value: "false", Fallback: &Synonym{"log.cleaner.enable", "false"}},
		"min.insync.replicas":     {Value: "1", Fallback: &Synonym{"min.insync.replicas", "1"}},
	} {
		got := values[name]
		if !reflect.DeepEqual(got.Fallback, want.Fallback) {
			t.Errorf("%s: got fallback %+v, want %+v", name, got.Fallback, want.Fallback)
		}
		if got.Value != want.Value {
			t.Errorf("%s: got value %q, want %q", name, got.Value, want.Value)
		}
		if got.Null != want.Null || got.Set != want.Set {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if _, described := values[NodeID]; described {
		t.Error("Describe returned a setting that only the broker knows")
	}
}

// TestEachKafkaSettingIsListedOrOmitted checks that each Kafka setting is listed or omitted, that
// each omission has a reason, and that no omission is outdated.
func TestEachKafkaSettingIsListedOrOmitted(t *testing.T) {
	used := map[int]bool{}
	for _, p := range kafkaProperties(t) {
		index := slices.IndexFunc(Omissions(), func(o Omission) bool { return o.Matches(p.name) })
		switch {
		case Find(p.name) == nil && index < 0:
			t.Errorf("%s is neither listed nor omitted for a reason", p.name)
		case Find(p.name) == nil:
			used[index] = true
		case index >= 0 && slices.Contains(Omissions()[index].Names, p.name):
			t.Errorf("%s is listed and omitted", p.name)
		}
	}
	for i, o := range Omissions() {
		if !used[i] || o.Reason == "" {
			t.Errorf("omission %v omits nothing or has no reason", o.Names)
		}
	}
}
