package handler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/admin"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// describedBroker returns a broker's settings as text: value, source, whether it is read-only, and
// synonyms. With an empty name, it returns the settings of all brokers.
func (b *broker) describedBroker(version int16, name string) map[string]string {
	b.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: name},
	}
	response := ask[*kmsg.DescribeConfigsResponse](b, version, req).Resources[0]
	if response.ErrorCode != 0 {
		b.t.Fatalf("describe broker %q: error %d", name, response.ErrorCode)
	}
	described := map[string]string{}
	for _, c := range response.Configs {
		value := "null"
		if c.Value != nil {
			value = *c.Value
		}
		text := []string{value, c.Source.String(), strconv.FormatBool(c.ReadOnly)}
		for _, s := range c.ConfigSynonyms {
			text = append(text, fmt.Sprintf("%s:%s=%s", s.Source, s.Name, *s.Value))
		}
		described[c.Name] = strings.Join(text, " ")
		if version >= 3 && (c.ConfigType == 0 || *c.Documentation == "") {
			b.t.Errorf("%s has no type or documentation", c.Name)
		}
	}
	return described
}

// TestBrokerSettingsHaveKafkasSources checks that the responses are the same as from Kafka 4.3.1.
func TestBrokerSettingsHaveKafkasSources(t *testing.T) {
	everyVersion(t, api.KeyDescribeConfigs, func(t *testing.T, b *broker, version int16) {
		b.cluster = &v1alpha1.LogCluster{}
		must(t, b.AlterCluster(t.Context(), metadata.ClusterChange{
			Properties: []metadata.PropertyChange{
				{Name: "log.retention.ms", Value: "1000"}, {Name: "num.partitions", Value: "6"},
			}}))
		got := b.describedBroker(version, "1")
		if len(got) != len(brokerconfig.All()) {
			t.Errorf("got %d settings, want %d", len(got), len(brokerconfig.All()))
		}
		const dynamic, standard = "DYNAMIC_DEFAULT_BROKER_CONFIG", "DEFAULT_CONFIG"
		for name, want := range map[string]string{
			"log.retention.ms": "1000 " + dynamic + " false " + dynamic +
				":log.retention.ms=1000 " + standard + ":log.retention.hours=168",
			"log.retention.hours": "168 " + standard + " true " + standard +
				":log.retention.hours=168",
			"log.retention.minutes": "null " + standard + " true",
			"log.roll.ms":           "null " + standard + " false",
			"num.partitions": "6 " + dynamic + " false " + dynamic + ":num.partitions=6 " +
				standard + ":num.partitions=1",
			"min.insync.replicas": "1 " + standard + " false " + standard +
				":min.insync.replicas=1",
			"node.id": "1 STATIC_BROKER_CONFIG true STATIC_BROKER_CONFIG:node.id=1",
			"broker.rack": "a STATIC_BROKER_CONFIG true " +
				"STATIC_BROKER_CONFIG:broker.rack=a",
			"advertised.listeners": "KAFKA://one.example:9092,OUT://one.public:19092 " +
				"STATIC_BROKER_CONFIG true STATIC_BROKER_CONFIG:advertised.listeners=" +
				"KAFKA://one.example:9092,OUT://one.public:19092",
			"listener.security.protocol.map": "KAFKA:PLAINTEXT,OUT:PLAINTEXT " +
				"STATIC_BROKER_CONFIG true STATIC_BROKER_CONFIG:listener.security.protocol.map=" +
				"KAFKA:PLAINTEXT,OUT:PLAINTEXT",
			"delete.topic.enable": "true " + standard + " true " + standard +
				":delete.topic.enable=true",
		} {
			if got[name] != want {
				t.Errorf("%s:\ngot  %s\nwant %s", name, got[name], want)
			}
		}
		all := b.describedBroker(version, "")
		if len(all) != 2 || all["num.partitions"] != "6 "+dynamic+" false "+dynamic+
			":num.partitions=6" {
			t.Errorf("default of all brokers: got %v", all)
		}
	})
}

func TestBrokerSettingsOfAReadOnlyCluster(t *testing.T) {
	b := newBroker(t)
	b.cluster = &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{
		AdminAPI: v1alpha1.AdminReadOnly, AutoCreateTopics: new(true)}}
	must(t, b.changed())
	got := b.describedBroker(4, "1")
	if !strings.HasPrefix(got["delete.topic.enable"], "false STATIC_BROKER_CONFIG true") ||
		!strings.HasPrefix(got["auto.create.topics.enable"], "false ") {
		t.Errorf("got %s and %s", got["delete.topic.enable"], got["auto.create.topics.enable"])
	}
	if all := b.describedBroker(4, ""); len(all) != 0 {
		t.Errorf("default of all brokers: got %v", all)
	}
	if code := b.alter(1, kmsg.ConfigResourceTypeBroker, "",
		configChange("log.retention.ms", 0, "1")).ErrorCode; code != 44 {
		t.Errorf("change: got error %d, want POLICY_VIOLATION", code)
	}
}

func TestBrokerSettingsAreAltered(t *testing.T) {
	everyVersion(t, api.KeyIncrementalAlterConfigs, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		set := func(name, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
			return configChange(name, 0, value)
		}
		remove := func(name string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
			return configChange(name, 1, "")
		}
		for _, test := range []struct {
			broker string
			change kmsg.IncrementalAlterConfigsRequestResourceConfig
			code   int16
			text   string
		}{
			{"", set("log.retention.ms", "1000"), 0, ""},
			{"", set("group.max.size", "7"), 0, ""},
			{"", configChange("log.cleanup.policy", 2, "compact"), 0, ""},
			{"", set("log.retention.ms", "abc"), 42, "not an integer"},
			{"", set("broker.rack", "b"), 42, "[broker.rack]: the setting is read-only"},
			{"", set("nonsense", "1"), 42, "[nonsense]: the setting is unknown"},
			{"", configChange("group.max.size", 2, "1"), 40, "append is not allowed"},
			{"", remove("nonsense"), 0, ""},
			{"1", set("log.retention.ms", "1000"), 40, "broker-level log.retention.ms cannot be"},
			{"1", set("node.id", "2"), 42, "[node.id]"},
			{"1", remove("log.retention.ms"), 0, ""},
			{"1", remove("leader.replication.throttled.rate"), 0, ""},
			{"1", set("leader.replication.throttled.rate", "5000000"), 0, ""},
			{"1", set("follower.replication.throttled.rate", "5000000"), 0, ""},
			{"2", set("log.retention.ms", "1000"), 42, `broker "2"`},
			{"x", set("log.retention.ms", "1000"), 42, "must be an integer"},
		} {
			got := b.alter(version, kmsg.ConfigResourceTypeBroker, test.broker, test.change)
			message := ""
			if got.ErrorMessage != nil {
				message = *got.ErrorMessage
			}
			if got.ErrorCode != test.code || !strings.Contains(message, test.text) {
				t.Errorf("broker %q, %s: got error %d %q, want %d %q", test.broker,
					test.change.Name, got.ErrorCode, message, test.code, test.text)
			}
		}
		img := b.image.Load()
		if img.Defaults.RetentionTime != time.Second || !img.Defaults.Compact ||
			img.Groups.MembersMax != 7 || b.groups.Config().MembersMax != 7 {
			t.Errorf("got defaults %+v and groups %+v", img.Defaults, img.Groups)
		}
		b.alter(version, kmsg.ConfigResourceTypeBroker, "", remove("log.retention.ms"))
		if got := b.describedBroker(4, "1")["log.retention.ms"]; !strings.HasPrefix(got, "null ") {
			t.Errorf("after the deletion: got %s", got)
		}
	})
}

func TestBrokerSettingsAreReplaced(t *testing.T) {
	everyVersion(t, api.KeyAlterConfigs, func(t *testing.T, b *broker, version int16) {
		replace := func(validate bool, name, value string) int16 {
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validate
			req.Resources = []kmsg.AlterConfigsRequestResource{{
				ResourceType: kmsg.ConfigResourceTypeBroker,
				Configs:      []kmsg.AlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
			}}
			return ask[*kmsg.AlterConfigsResponse](b, version, req).Resources[0].ErrorCode
		}
		codes := []int16{replace(false, "log.retention.ms", "1000"),
			replace(true, "group.max.size", "7"), replace(true, "group.max.size", "x"),
			replace(false, "log.retention.bytes", "5")}
		if !slices.Equal(codes, []int16{0, 0, 42, 0}) {
			t.Errorf("got error codes %v", codes)
		}
		if got := b.image.Load().ClusterProperties; len(got) != 1 ||
			got["log.retention.bytes"] != "5" {
			t.Errorf("got settings %v, want log.retention.bytes only", got)
		}
	})
}

// TestDescribedDefaultsAreInEffect checks that the defaults in package brokerconfig equal the
// defaults in the code. Tests of packages replica and logstore check the defaults of those
// packages.
func TestDescribedDefaultsAreInEffect(t *testing.T) {
	groups := group.Config{}.WithDefaults()
	for name, value := range map[string]int64{
		"fetch.max.bytes":                           data.FetchBytesMax,
		"socket.request.max.bytes":                  produceFrameMax,
		"max.request.partition.size.limit":          admin.DescribePartitionsMax,
		"max.incremental.fetch.session.cache.slots": session.SessionsMax,
		"producer.id.expiration.ms":                 producer.Expiry.Milliseconds(),
		"group.consumer.assignment.interval.ms":     groups.ConsumerAssignment.Milliseconds(),
		"group.consumer.heartbeat.interval.ms":      groups.ConsumerInterval.Milliseconds(),
		"group.consumer.session.timeout.ms":         groups.ConsumerSession.Milliseconds(),
		"group.initial.rebalance.delay.ms":          groups.InitialDelay.Milliseconds(),
		"group.max.session.timeout.ms":              groups.SessionMax.Milliseconds(),
		"group.max.size":                            int64(groups.MembersMax),
		"group.min.session.timeout.ms":              groups.SessionMin.Milliseconds(),
		"offset.metadata.max.bytes":                 int64(groups.MetadataBytesMax),
		"offsets.retention.minutes":                 int64(groups.Retention.Minutes()),
		"log.cleaner.dedupe.buffer.size":            metadata.ResolveCleaner(nil).MemoryBytes,
		"log.cleaner.threads":                       int64(metadata.ResolveCleaner(nil).Workers),
	} {
		if got := brokerconfig.Find(name).Default; got != strconv.FormatInt(value, 10) {
			t.Errorf("%s: got %s, want %d", name, got, value)
		}
	}
}
