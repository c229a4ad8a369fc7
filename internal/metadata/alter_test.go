package metadata

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/seed"
)

func changes(all ...PropertyChange) []PropertyChange { return all }

func TestAlteredTopicWritesWhatChanged(t *testing.T) {
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
			"what is written out stays so, also where it is the default",
			`{retention: {time: 48h, size: 5}, segment: {size: 1Gi}}`,
			TopicChange{Properties: changes(PropertyChange{"retention.bytes", PropertySet, "7"})},
			`{retention: {time: 48h, size: 7}, segment: {size: 1Gi}}`,
		},
		{
			"deleted: the cluster's again", `{retention: {time: 1h}, cleanupPolicy: Compact}`,
			TopicChange{Properties: changes(PropertyChange{"retention.ms", PropertyDelete, ""})},
			`{cleanupPolicy: Compact}`,
		},
		{"deleted, never set", `{}`,
			TopicChange{Properties: changes(PropertyChange{"leader.replication.throttled.replicas",
				PropertyDelete, ""})}, `{}`},
		{
			"appended", `{cleanupPolicy: Compact}`,
			TopicChange{Properties: changes(PropertyChange{"cleanup.policy", PropertyAppend,
				"delete"})},
			`{cleanupPolicy: CompactDelete}`,
		},
		{
			"subtracted", `{cleanupPolicy: CompactDelete}`,
			TopicChange{Properties: changes(PropertyChange{"cleanup.policy", PropertySubtract,
				"delete"})},
			`{cleanupPolicy: Compact}`,
		},
		{
			"a level of the cluster's codec", `{}`,
			TopicChange{Properties: changes(PropertyChange{"compression.zstd.level", PropertySet,
				"5"})},
			`{compression: {type: zstd, level: 5}}`,
		},
		{
			"a codec, and a clean codec that stays",
			`{compression: {type: lz4, level: 9, clean: {type: zstd}}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.type", PropertySet,
				"gzip"})}, `{compression: {type: gzip, clean: {type: zstd}}}`,
		},
		{
			"the codec deleted", `{compression: {type: lz4, level: 9}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.type", PropertyDelete,
				""})}, `{}`,
		},
		{
			"the level deleted, which the cluster has too", `{compression: {type: zstd, level: 9}}`,
			TopicChange{Properties: changes(PropertyChange{"compression.zstd.level", PropertyDelete,
				""})}, `{}`,
		},
		{
			"replaced", `{retention: {time: 1h}, replicas: 3, compaction: {maxGarbagePercent: 5, minLag: 1s}, compression: {type: lz4}}`,
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
				t.Errorf("what was given has changed:\n%s", diff)
			}
		})
	}
}

// quantities compares resources by what they say as YAML.
var quantities = cmp.Comparer(func(a, b v1alpha1.TopicSettings) bool {
	x, _ := yaml.Marshal(a)
	y, _ := yaml.Marshal(b)
	return bytes.Equal(x, y)
})

func TestAlterationsThatAreRefused(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Spec.TopicSettings = settingsOf(t, `{replicas: 2}`)
	for _, test := range []struct {
		changes []PropertyChange
		words   string
	}{
		{changes(PropertyChange{"segment.bytes", PropertySet, "1"}), "segment.bytes"},
		{changes(PropertyChange{"no.such", PropertySet, "1"}), `"no.such"`},
		{changes(PropertyChange{"no.such", PropertyAppend, "1"}), `"no.such"`},
		{changes(PropertyChange{"retention.ms", PropertyAppend, "1"}), "retention.ms is no list"},
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
			t.Errorf("%+v: %v, want %q", test.changes, err, test.words)
		}
	}
}

// TestAlteredTopicsMeanWhatWasAsked: whatever a topic and its cluster say, after a change each
// property has the value that was asked for, or its default, and all others are as they were.
// Model: Settings themselves.
func TestAlteredTopicsMeanWhatWasAsked(t *testing.T) {
	for seed := range seed.Sequence(t, 2000) {
		random := rand.New(rand.NewPCG(seed, 7))
		cluster := clusterWith(ResourceSettings(randomSettings(random), topicconfig.Default()))
		cluster.Spec.TopicDefaults.MinInSyncReplicas = nil
		base, err := ResolveSettings(v1alpha1.TopicSettings{}, cluster)
		if err != nil {
			t.Fatal(err)
		}
		topic := &v1alpha1.Topic{}
		topic.Spec.TopicSettings = ResourceSettings(randomSettings(random), base)
		topic.Spec.Replicas = new(int32(15))
		want, err := ResolveSettings(topic.Spec.TopicSettings, cluster)
		if err != nil {
			t.Fatal(err)
		}
		properties, wanted := randomChanges(random, randomSettings(random), base, want)
		got, err := AlteredTopic(topic, TopicChange{Properties: properties}, cluster)
		if wanted.Validate() != nil {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, properties)
		}
		settings, err := ResolveSettings(got.Spec.TopicSettings, cluster)
		if diff := cmp.Diff(wanted, settings); err != nil || diff != "" {
			t.Fatalf("seed %d: %v\n%s\n%+v", seed, err, diff, properties)
		}
	}
}

// randomChanges sets some properties to what they are in target and resets others. Levels are left
// to the table above.
func randomChanges(random *rand.Rand, target, base,
	from topicconfig.Settings) (properties []PropertyChange, wanted topicconfig.Settings) {
	wanted = from
	shown := target.Properties()
	for i, p := range shown {
		if strings.HasPrefix(p.Name, "compression.") || random.IntN(3) > 0 {
			continue
		}
		change := PropertyChange{Name: p.Name, Value: p.Value}
		if random.IntN(2) == 0 {
			change = PropertyChange{Name: p.Name, Op: PropertyDelete}
			_ = wanted.Set(p.Name, base.Properties()[i].Value)
		} else {
			_ = wanted.Set(p.Name, p.Value)
		}
		properties = append(properties, change)
	}
	return properties, wanted
}

func TestEveryPropertyHasAField(t *testing.T) {
	for _, p := range topicconfig.Default().Properties() {
		if fields[p.Name] == nil {
			t.Errorf("%s: no field is known", p.Name)
		}
	}
	if len(fields) != len(topicconfig.Default().Properties()) {
		t.Error("there are fields of properties that do not exist")
	}
}

func TestGrownTopic(t *testing.T) {
	topic := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{Partitions: 3}}
	for count, ok := range map[int32]bool{0: false, 2: false, 3: false, 4: true, 10000: true,
		10001: false} {
		grown, err := GrownTopic(topic, count)
		if (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalidPartitions) || ok &&
			grown.Spec.Partitions != count {
			t.Errorf("%d: %v", count, err)
		}
	}
	if topic.Spec.Partitions != 3 {
		t.Error("what was given has changed")
	}
}

// Groups hash to partitions by their number: one more, and most groups would look for their offsets
// where they are not.
func TestTheTopicOfGroupsDoesNotGrow(t *testing.T) {
	topic := &v1alpha1.Topic{Spec: v1alpha1.TopicSpec{TopicName: "__consumer_offsets",
		Partitions: 50}}
	if _, err := GrownTopic(topic, 60); !errors.Is(err, ErrInvalidPartitions) {
		t.Errorf("60 partitions of 50: %v", err)
	}
}
