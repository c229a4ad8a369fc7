package metadata

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/seed"
)

func changes(all ...PropertyChange) []PropertyChange { return all }

func TestAlteredTopicWritesChangedFields(t *testing.T) {
	cluster := clusterWith(settingsOf(t,
		`{retention: {time: 48h}, compression: {type: zstd, level: 9}}`))
	for _, test := range []struct {
		name, before string
		change       TopicChange
		want         string
	}{
		{"one property", `{}`,
			TopicChange{Properties: changes(PropertyChange{"retention.ms", PropertySet, "1000"})},
			`{retention: {time: 1s}}`},
		{
			"explicit fields stay, even if they equal the default",
			`{retention: {time: 48h, size: 5}, segment: {size: 1Gi}}`,
			TopicChange{Properties: changes(PropertyChange{"retention.bytes", PropertySet, "7"})},
			`{retention: {time: 48h, size: 7}, segment: {size: 1Gi}}`,
		},
		{
			"property deleted: the cluster's default applies", `{retention: {time: 1h}, cleanupPolicy: Compact}`,
			TopicChange{Properties: changes(PropertyChange{"retention.ms", PropertyDelete, ""})},
			`{cleanupPolicy: Compact}`,
		},
		{"property deleted that was not set", `{}`,
			TopicChange{Properties: changes(PropertyChange{"leader.replication.throttled.replicas",
				PropertyDelete, ""})}, `{}`},
		{
			"list value appended", `{cleanupPolicy: Compact}`,
			TopicChange{Properties: changes(PropertyChange{"cleanup.policy", PropertyAppend,
				"delete"})},
			`{cleanupPolicy: CompactDelete}`,
		},
		{
			"list value subtracted", `{cleanupPolicy: CompactDelete}`,
			TopicChange{Properties: changes(PropertyChange{"cleanup.policy", PropertySubtract,
				"delete"})},
			`{cleanupPolicy: Compact}`,
		},
		{
			"a level for the codec of the cluster's default", `{}`,
			TopicChange{Properties: changes(PropertyChange{"compression.zstd.level", PropertySet,
				"5"})},
			`{compression: {type: zstd, level: 5}}`,
		},
		{
			"another codec; the clean codec keeps its value",
			`{compression: {type: lz4, level: 9, clean: {type: zstd}}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.type", PropertySet,
				"gzip"})}, `{compression: {type: gzip, clean: {type: zstd}}}`,
		},
		{
			"codec deleted", `{compression: {type: lz4, level: 9}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.type", PropertyDelete,
				""})}, `{}`,
		},
		{
			"level deleted: the type stays, with the level of the cluster's default",
			`{compression: {type: zstd, level: 5}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.zstd.level", PropertyDelete,
				""})}, `{compression: {type: zstd, level: 9}}`,
		},
		{
			"codec deleted: the clean codec keeps its value",
			`{compression: {type: lz4, level: 9, clean: {type: zstd}}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.type", PropertyDelete,
				""})}, `{compression: {clean: {type: zstd}}}`,
		},
		{
			"values that equal the defaults are written", `{}`,
			TopicChange{Properties: changes(PropertyChange{"retention.ms", PropertySet, "172800000"},
				PropertyChange{"compression.type", PropertySet, "zstd"},
				PropertyChange{"cleanup.policy", PropertySet, "delete"},
				PropertyChange{"unclean.leader.election.enable", PropertySet, "false"},
				PropertyChange{"flush.messages", PropertySet, "9223372036854775807"},
				PropertyChange{"max.compaction.lag.ms", PropertySet, "9223372036854775807"},
				PropertyChange{"min.compaction.lag.ms", PropertySet, "0"})},
			`{retention: {time: 48h}, compression: {type: zstd, level: 9}, cleanupPolicy: Delete,
			  uncleanLeaderElection: false, durability: Replicated,
			  compaction: {maxLag: 999999h, minLag: 0s}}`,
		},
		{
			"the level of a codec is its default",
			`{compression: {type: gzip}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.gzip.level", PropertySet,
				"-1"})}, `{compression: {type: gzip, level: -1}}`,
		},
		{
			"gzip's level 6 is not its default", `{compression: {type: gzip}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.gzip.level", PropertySet,
				"6"})}, `{compression: {type: gzip, level: 6}}`,
		},
		{
			"Kafka's largest duration", `{}`,
			TopicChange{Properties: changes(PropertyChange{"segment.ms", PropertySet,
				"9223372036854775807"})}, `{segment: {maxAge: 999999h}}`,
		},
		{
			"AlterConfigs resets the properties that it does not name", `{retention: {time: 1h}, replicas: 3, compaction: {maxGarbagePercent: 5, minLag: 1s}, compression: {type: lz4}}`,
			TopicChange{Replace: true,
				Properties: changes(PropertyChange{"segment.ms", PropertySet, "60000"})},
			`{replicas: 3, compaction: {maxGarbagePercent: 5}, segment: {maxAge: 1m}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			topic := &v1alpha1.Topic{}
			topic.Spec.TopicSettings = settingsOf(t, test.before)
			got, err := AlteredTopic(topic, test.change, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(settingsOf(t, test.want), got.Spec.TopicSettings,
				quantities); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(settingsOf(t, test.before), topic.Spec.TopicSettings,
				quantities); diff != "" {
				t.Errorf("AlteredTopic changed its argument (-before +after):\n%s", diff)
			}
		})
	}
}

// quantities compares settings by their YAML, because equal quantities can have different Go
// values.
var quantities = cmp.Comparer(func(a, b v1alpha1.TopicSettings) bool {
	x, _ := yaml.Marshal(a)
	y, _ := yaml.Marshal(b)
	return bytes.Equal(x, y)
})

func TestAlteredTopicRejectsInvalidChanges(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Spec.TopicSettings = settingsOf(t, `{replicas: 2}`)
	for _, test := range []struct {
		changes []PropertyChange
		words   string
	}{
		{changes(PropertyChange{"segment.bytes", PropertySet, "1"}), "segment.bytes"},
		{changes(PropertyChange{"no.such", PropertySet, "1"}), `"no.such"`},
		{changes(PropertyChange{"no.such", PropertyAppend, "1"}), `"no.such"`},
		{changes(PropertyChange{"retention.ms", PropertyAppend, "1"}),
			"retention.ms is not a list"},
		{changes(PropertyChange{"cleanup.policy", PropertySubtract, "delete"}), "cleanup.policy"},
		{changes(PropertyChange{"cleanup.policy", PropertyAppend, "shrink"}), "cleanup.policy"},
		{changes(PropertyChange{"retention.ms", 7, "1"}), "unknown operation 7"},
		{changes(PropertyChange{"retention.ms", PropertySet, "1"},
			PropertyChange{"retention.ms", PropertyDelete, ""}), "more than once"},
		{changes(PropertyChange{"min.insync.replicas", PropertySet, "3"}), "2 replicas"},
		{changes(PropertyChange{"min.compaction.lag.ms", PropertySet, "10"},
			PropertyChange{"max.compaction.lag.ms", PropertySet, "5"}), "max.compaction.lag.ms"},
	} {
		if _, err := AlteredTopic(topic, TopicChange{Properties: test.changes},
			nil); !errors.Is(err, ErrInvalidSettings) ||
			!strings.Contains(err.Error(), test.words) {
			t.Errorf("%+v: error %v, want ErrInvalidSettings with %q", test.changes, err,
				test.words)
		}
	}
}

// TestAlteredTopicMatchesItsModel applies random changes to random topics in random clusters. It
// checks that each changed property has the requested value or its default, and that all other
// properties are unchanged. The model is topicconfig.Settings.
func TestAlteredTopicMatchesItsModel(t *testing.T) {
	for seed := range seed.Sequence(t, 2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		cluster := clusterWith(ResourceSettings(randomSettings(random)))
		cluster.Spec.TopicDefaults.MinInSyncReplicas = nil
		base, err := ResolveSettings(v1alpha1.TopicSettings{}, cluster)
		if err != nil {
			t.Fatal(err)
		}
		topic := &v1alpha1.Topic{}
		topic.Spec.TopicSettings = ResourceSettings(randomSettings(random))
		topic.Spec.Replicas = new(int32(15))
		want, err := ResolveSettings(topic.Spec.TopicSettings, cluster)
		if err != nil {
			t.Fatal(err)
		}
		properties, want := randomChanges(random, randomSettings(random), base, want)
		got, err := AlteredTopic(topic, TopicChange{Properties: properties}, cluster)
		if want.Validate() != nil {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, properties)
		}
		settings, err := ResolveSettings(got.Spec.TopicSettings, cluster)
		if diff := cmp.Diff(want, settings); err != nil || diff != "" {
			t.Fatalf("seed %d: %v\n%s\n%+v", seed, err, diff, properties)
		}
	}
}

// randomChanges returns changes that set some properties to their values in target and reset
// others. It also returns the settings that result from applying these changes to from. It omits
// compression levels, which TestAlteredTopicWritesChangedFields tests.
func randomChanges(random *rand.Rand, target, base,
	from topicconfig.Settings) (properties []PropertyChange, want topicconfig.Settings) {
	want = from
	shown := target.Properties()
	for i, p := range shown {
		if strings.HasPrefix(p.Name, "compression.") || random.IntN(3) > 0 {
			continue
		}
		change := PropertyChange{Name: p.Name, Value: p.Value}
		if random.IntN(2) == 0 {
			change = PropertyChange{Name: p.Name, Op: PropertyDelete}
			_ = want.Set(p.Name, base.Properties()[i].Value)
		} else {
			_ = want.Set(p.Name, p.Value)
		}
		properties = append(properties, change)
	}
	return properties, want
}

// TestSetValuesStayWhenTheDefaultChanges checks that a property that a topic sets to its default
// belongs to the topic's own properties, and keeps its value when the LogCluster gets another
// default. A deletion must undo this.
func TestSetValuesStayWhenTheDefaultChanges(t *testing.T) {
	later := clusterWith(settingsOf(t, everything))
	later.Spec.TopicDefaults.MinInSyncReplicas = nil
	for i, p := range topicconfig.Default().Properties() {
		if strings.HasSuffix(p.Name, ".level") {
			continue // this is the level of a codec that the topic does not use
		}
		created, err := TopicResource(NewTopic{Name: "t", Partitions: 1, Replicas: 1,
			Properties: map[string]string{p.Name: p.Value}}, "demo", nil)
		if err != nil {
			t.Fatal(err)
		}
		altered, err := AlteredTopic(&v1alpha1.Topic{}, TopicChange{
			Properties: changes(PropertyChange{p.Name, PropertySet, p.Value})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for how, topic := range map[string]*v1alpha1.Topic{"created": created, "altered": altered} {
			resolved, err := ResolveTopic(topic, later)
			if err != nil {
				t.Fatal(err)
			}
			if got := resolved.Settings.Properties()[i].Value; got != p.Value ||
				!slices.Equal(resolved.Own, []string{p.Name}) {
				t.Errorf("%s: %s is %s with a later default, want %s; own properties are %v", how,
					p.Name, got, p.Value, resolved.Own)
			}
			reset, err := AlteredTopic(topic, TopicChange{
				Properties: changes(PropertyChange{p.Name, PropertyDelete, ""})}, later)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v1alpha1.TopicSettings{Replicas: topic.Spec.Replicas},
				reset.Spec.TopicSettings); diff != "" {
				t.Errorf("%s: %s after its deletion (-want +got):\n%s", how, p.Name, diff)
			}
		}
	}
}

func TestEveryPropertyHasAField(t *testing.T) {
	for _, p := range topicconfig.Default().Properties() {
		if fields[p.Name] == nil {
			t.Errorf("property %s has no field", p.Name)
		}
	}
	if len(fields) != len(topicconfig.Default().Properties()) {
		t.Error("the map fields contains properties that do not exist")
	}
}

func TestGrownTopic(t *testing.T) {
	topic := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Partitions: 3}}
	for count, ok := range map[int32]bool{0: false, 2: false, 3: false, 4: true, 10000: true,
		10001: false} {
		grown, err := GrownTopic(topic, NewPartitions{Count: count}, nil, Brokers{})
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalidPartitions) || ok &&
			grown.Spec.Partitions != count {
			t.Errorf("GrownTopic to %d: error %v, want success %v", count, err, ok)
		}
	}
	if topic.Spec.Partitions != 3 {
		t.Error("GrownTopic changed its argument")
	}
}

// TestOffsetsTopicCannotGrow checks that the number of partitions of __consumer_offsets cannot
// change, because the number determines which partition contains a group's offsets. After a change,
// the coordinator would look for most groups' offsets in another partition.
func TestOffsetsTopicCannotGrow(t *testing.T) {
	topic := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{TopicName: "__consumer_offsets",
		Partitions: 50}}
	if _, err := GrownTopic(topic, NewPartitions{Count: 60}, nil,
		Brokers{}); !errors.Is(err, ErrInvalidPartitions) {
		t.Errorf("from 50 to 60 partitions: error %v, want ErrInvalidPartitions", err)
	}
}
