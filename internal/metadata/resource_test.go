package metadata

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/seed"
)

func settingsOf(t *testing.T, text string) v1alpha1.TopicSettings {
	t.Helper()
	var settings v1alpha1.TopicSettings
	if err := yaml.UnmarshalStrict([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	return settings
}

func clusterWith(defaults v1alpha1.TopicSettings) *v1alpha1.LogCluster {
	return &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{
		TopicDefaults: &v1alpha1.TopicDefaults{TopicSettings: defaults}}}
}

// everything sets every setting that has a Kafka property, to a value other than the default.
const everything = `
minInSyncReplicas: 2
cleanupPolicy: CompactDelete
compaction: {minDirtyPercent: 10, minLag: 1s, maxLag: 1m, tombstoneRetention: 2h}
compression: {type: zstd, level: 9}
retention: {time: 48h, size: 1Gi}
segment: {size: 64Mi, maxAge: 10m, jitter: 1m, indexSize: 1Mi, indexInterval: 8Ki}
maxMessageSize: 2Mi
maxRecordSize: 3Mi
timestampType: LogAppendTime
timestampLimits: {past: 24h, future: -1s}
withoutEffect: {flushInterval: 10s, fileDeleteDelay: 0s, preallocate: true}
durability: Fsync
uncleanLeaderElection: true
`

// TestSettingsWithoutKafkaName checks that a resource can set maxGarbagePercent and the clean
// codec, which have no Kafka property.
func TestSettingsWithoutKafkaName(t *testing.T) {
	got, err := ResolveSettings(settingsOf(
		t,
		`{compaction: {maxGarbagePercent: 0}, compression: {type: lz4, clean: {type: zstd, level: 19}}}`,
	), nil)
	want := topicconfig.CleanCodec{Set: true, Codec: compress.Zstd, Level: 19}
	if err != nil || got.MaxGarbagePercent != 0 || got.CleanCodec != want ||
		got.Codec != compress.LZ4 {
		t.Errorf("settings %+v, error %v", got, err)
	}
	cluster := clusterWith(settingsOf(t, `{compression: {type: lz4, clean: {type: zstd}}}`))
	if got, err = ResolveSettings(settingsOf(t, `{compression: {type: gzip}}`),
		cluster); err != nil || got.CleanCodec.Set {
		t.Errorf("the cluster's clean codec applies to the topic's own compression: %+v, error %v",
			got, err)
	}
	if got, err = ResolveSettings(settingsOf(t, `{}`), cluster); err != nil ||
		got.CleanCodec.Codec != compress.Zstd {
		t.Errorf("the cluster's clean codec does not apply: %+v, error %v", got, err)
	}
}

func TestSettingsOfATopicThatSetsEverything(t *testing.T) {
	want := topicconfig.Settings{
		Delete: true, Compact: true, MinDirtyPercent: 10, MaxGarbagePercent: 20,
		MinLag: time.Second, MaxLag: time.Minute, TombstoneRetention: 2 * time.Hour,
		Codec: compress.Zstd, CodecLevel: 9, RetentionTime: 48 * time.Hour, RetentionBytes: 1 << 30,
		SegmentBytes: 64 << 20, SegmentAge: 10 * time.Minute, MessageBytesMax: 2 << 20,
		RecordBytesMax: 3 << 20,
		TimestampType:  record.LogAppendTime, MinInSyncReplicas: 2, Fsync: true,
		UncleanElection: true, SegmentJitter: time.Minute, SegmentIndexBytes: 1 << 20,
		IndexIntervalBytes: 8 << 10,
		TimestampBeforeMax: 24 * time.Hour, TimestampAfterMax: topicconfig.Unlimited,
		WithoutEffect: topicconfig.WithoutEffect{FlushInterval: 10 * time.Second,
			Preallocate: true},
	}
	got, err := ResolveSettings(settingsOf(t, everything), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("as the topic's own (-want +got):\n%s", diff)
	}
	got, err = resolve(v1alpha1.TopicSettings{}, clusterWith(settingsOf(t, everything)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("as the cluster's defaults (-want +got):\n%s", diff)
	}
}

// TestTopicOverridesClusterOverridesKafka checks that a topic's field overrides the cluster's
// default, which overrides Kafka's default.
func TestTopicOverridesClusterOverridesKafka(t *testing.T) {
	cluster := clusterWith(settingsOf(t,
		`{compaction: {minDirtyPercent: 20, minLag: 5s}, compression: {type: zstd, level: 19}}`))
	got, err := ResolveSettings(settingsOf(t,
		`{compaction: {minLag: 1s}, compression: {type: gzip}}`), cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := topicconfig.Default()
	want.MinDirtyPercent, want.MinLag = 20, time.Second
	// The level 19 is not inherited, because it belongs to the cluster's zstd.
	want.KeepCodec, want.Codec = false, compress.Gzip
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	got, err = ResolveSettings(v1alpha1.TopicSettings{}, nil)
	if err != nil || got != topicconfig.Default() {
		t.Errorf("a topic without settings has %+v, error %v", got, err)
	}
}

func TestUnlimitedAges(t *testing.T) {
	for _, text := range []string{`{retention: {time: -1s, size: -1}}`,
		`{retention: {time: 999999h, size: "-1"}}`} {
		got, err := ResolveSettings(settingsOf(t, text),
			clusterWith(settingsOf(t, `{retention: {time: 1h, size: 5}}`)))
		if err != nil || got.RetentionTime != topicconfig.Unlimited ||
			got.RetentionBytes != topicconfig.Unlimited {
			t.Errorf(
				"%s: got time %s, size %d, error %v, want unlimited",
				text,
				got.RetentionTime,
				got.RetentionBytes,
				err,
			)
		}
	}
}

// TestInvalidSettingsNameTheirField checks that each error begins with the path of its field. The
// CRD's rules accept these values, or the values were written under another version of the CRD.
func TestInvalidSettingsNameTheirField(t *testing.T) {
	for text, want := range map[string]string{
		`{minInSyncReplicas: 0}`:                                     `spec.minInSyncReplicas: Invalid value: 0: must be 1 to 32767`,
		`{cleanupPolicy: Shrink}`:                                    `spec.cleanupPolicy: Unsupported value: "Shrink": supported values: "Delete", "Compact", "CompactDelete"`,
		`{compaction: {minDirtyPercent: 101}}`:                       `spec.compaction.minDirtyPercent: Invalid value: 101: must be 0 to 100`,
		`{compaction: {maxGarbagePercent: 100}}`:                     `spec.compaction.maxGarbagePercent: Invalid value: 100: must be 0 to 99`,
		`{compression: {type: lz4, clean: {type: producer}}}`:        `spec.compression.clean.type: Invalid value: "producer": must be a codec`,
		`{compression: {type: lz4, clean: {type: gzip, level: 12}}}`: `spec.compression.clean.level: Invalid value: 12: `,
		`{compaction: {minLag: -1s}}`:                                `spec.compaction.minLag: Invalid value: "-1s": must be at least 0s`,
		`{compaction: {minLag: 2h, maxLag: 1h}}`:                     `spec.compaction.minLag: Invalid value: "2h0m0s": with the cluster's topicDefaults: min.compaction.lag.ms (7200000) is above max.compaction.lag.ms (3600000)`,
		`{compression: {type: brotli}}`:                              `spec.compression.type: Invalid value: "brotli": `,
		`{compression: {type: zstd, level: 23}}`:                     `spec.compression.level: Invalid value: 23: `,
		`{segment: {size: 100}}`:                                     `spec.segment.size: Invalid value: "100": must be 1024 to 2147483647 bytes`,
		`{segment: {maxAge: 0s}}`:                                    `spec.segment.maxAge: Invalid value: "0s": must be at least 1ms`,
		`{segment: {indexSize: 1000}}`:                               `spec.segment.indexSize: Invalid value: "1k": must be 1024 to 2147483647 bytes`,
		`{segment: {indexInterval: -1}}`:                             `spec.segment.indexInterval: Invalid value: "-1": must be 0 to 2147483647 bytes`,
		`{segment: {jitter: -1s}}`:                                   `spec.segment.jitter: Invalid value: "-1s": must be at least 0s`,
		`{withoutEffect: {flushInterval: 999ms}}`:                    `spec.withoutEffect.flushInterval: Invalid value: "999ms": must be at least 1s`,
		`{withoutEffect: {fileDeleteDelay: -1s}}`:                    `spec.withoutEffect.fileDeleteDelay: Invalid value: "-1s": must be at least 0s`,
		`{maxMessageSize: 4Gi}`:                                      `spec.maxMessageSize: Invalid value: "4Gi": must be 0 to 2147483647 bytes`,
		`{retention: {size: 10E}}`:                                   `spec.retention.size: Invalid value: "10E": must be -1 to 9223372036854775807 bytes`,
		`{durability: Always}`:                                       `spec.durability: Unsupported value: "Always": supported values: "Replicated", "Fsync"`,
		`{timestampType: Now}`:                                       `spec.timestampType: Unsupported value: "Now": supported values: "CreateTime", "LogAppendTime"`,
	} {
		_, err := ResolveSettings(settingsOf(t, text), nil)
		if !errors.Is(err, ErrInvalidSettings) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := ResolveSettings(v1alpha1.TopicSettings{},
		clusterWith(settingsOf(t, `{segment: {size: 1}}`)))
	if err == nil || !strings.HasPrefix(err.Error(), "spec.topicDefaults.segment.size: ") {
		t.Errorf("invalid default of the cluster: got error %v, want one with its path", err)
	}
}

func TestResolveTopicAndCleaner(t *testing.T) {
	topic := &v1alpha1.Topic{}
	topic.Name, topic.Spec.TopicName = "consumer-offsets", "__consumer_offsets"
	got, err := ResolveTopic(topic, nil)
	if err != nil || got.Name != "__consumer_offsets" || !got.Internal || !got.RetainData {
		t.Errorf(
			"got topic %+v, error %v, want the internal topic __consumer_offsets with retained data",
			got,
			err,
		)
	}
	topic.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete
	if got, _ = ResolveTopic(topic, nil); got.RetainData {
		t.Error("with reclaim policy Delete, RetainData is true")
	}
	if budget := ResolveCleaner(nil); budget != (CleanerBudget{Workers: 1,
		MemoryBytes: 128 << 20}) {
		t.Errorf("default cleaner budget is %+v", budget)
	}
	var cluster v1alpha1.LogCluster
	if err := yaml.Unmarshal([]byte(`spec: {cleaner: {workers: 0, memory: 16Mi, ioRate: 1M}}`),
		&cluster); err != nil {
		t.Fatal(err)
	}
	if budget := ResolveCleaner(&cluster); budget != (CleanerBudget{0, 16 << 20, 1e6}) {
		t.Errorf("got cleaner budget %+v, want 0 workers, 16 MiB, 1 MB/s", budget)
	}
}

func TestReplicationSettingsOfACluster(t *testing.T) {
	for text, want := range map[string]Replication{
		`{}`: {}, `{replication: {}}`: {}, `{replication: {maxLag: 3s}}`: {LagMax: 3 * time.Second},
		`{replication: {maxLag: 1ms, catchUpRate: 2Mi}}`: {CatchUpBytesRate: 2 << 20},
		`{rebalance: {rate: 3Mi}}`:                       {MoveBytesRate: 3 << 20},
	} {
		var cluster v1alpha1.LogCluster
		if err := yaml.Unmarshal([]byte("spec: "+text), &cluster); err != nil {
			t.Fatal(err)
		}
		image := NewImage("ours", CleanerBudget{}, nil, nil).WithPolicies(&cluster)
		if image.Replication != want {
			t.Errorf("%s: %+v, want %+v", text, image.Replication, want)
		}
	}
	if got := ResolveReplication(nil); got != (Replication{}) {
		t.Errorf("without a LogCluster: %+v", got)
	}
}

func TestGroupSettingsOfACluster(t *testing.T) {
	hour := time.Hour
	for text, want := range map[string]Groups{
		`{}`: {}, `{groups: {}}`: {}, `{groups: {offsetsTopic: {}}}`: {},
		`{groups: {minSessionTimeout: 1s, maxSessionTimeout: 1h, maxMembers: 9}}`: {SessionMin: time.Second, SessionMax: hour, MembersMax: 9},
		`{groups: {initialRebalanceDelay: 0s, maxOffsetMetadata: 0}}`:             {InitialDelay: -1, MetadataBytesMax: -1},
		`{groups: {initialRebalanceDelay: 1h, maxOffsetMetadata: 1Ki}}`:           {InitialDelay: hour, MetadataBytesMax: 1024},
		`{groups: {offsetsRetention: 1h, offsetsCheckInterval: 1h, offsetsTopic: {partitions: 3, replicas: 2}}}`: {
			OffsetsRetention: hour, OffsetsCheckInterval: hour, OffsetsPartitions: 3,
			OffsetsReplicas: 2,
		},
		`{groups: {consumerSessionTimeout: 1h, consumerHeartbeatInterval: 1h}}`:           {ConsumerSession: hour, ConsumerInterval: hour},
		`{groups: {consumerAssignmentInterval: 2s}}`:                                      {ConsumerAssignment: 2 * time.Second},
		`{groups: {consumerAssignmentInterval: 0s}}`:                                      {ConsumerAssignment: -1},
		`{groups: {minConsumerSessionTimeout: 1h, maxConsumerSessionTimeout: 2h}}`:        {ConsumerSessionMin: hour, ConsumerSessionMax: 2 * hour},
		`{groups: {minConsumerHeartbeatInterval: 1h, maxConsumerHeartbeatInterval: 2h}}`:  {ConsumerIntervalMin: hour, ConsumerIntervalMax: 2 * hour},
		`{groups: {maxMembers: -1, offsetsRetention: -1s, offsetsTopic: {replicas: -1}}}`: {},
	} {
		var cluster v1alpha1.LogCluster
		if err := yaml.Unmarshal([]byte("spec: "+text), &cluster); err != nil {
			t.Fatal(err)
		}
		if got := NewImage("ours", CleanerBudget{}, nil,
			nil).WithPolicies(&cluster).Groups; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if got := ResolveGroups(nil); got != (Groups{}) {
		t.Errorf("without a LogCluster: %+v", got)
	}
}

func TestTransactionSettingsOfACluster(t *testing.T) {
	var cluster v1alpha1.LogCluster
	if err := yaml.Unmarshal([]byte(`spec: {transactions: {maxTimeout: 1h, idExpiration: 2h,
		stateTopic: {partitions: 3, replicas: 2}}}`), &cluster); err != nil {
		t.Fatal(err)
	}
	want := Transactions{TimeoutMax: time.Hour, IDExpiration: 2 * time.Hour, Partitions: 3,
		Replicas: 2}
	if got := new(Image).WithPolicies(&cluster).Transactions; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := NewTopicPartitions(TransactionsTopic, &cluster); got != 3 {
		t.Errorf("%d partitions, want 3", got)
	}
	topic := NewTopic{Name: TransactionsTopic, Partitions: -1, Replicas: -1}
	if got := WithInternalDefaults(topic, 3, &cluster); got.Replicas != 2 {
		t.Errorf("%d replicas, want 2", got.Replicas)
	}
	if got := ResolveTransactions(nil); got != (Transactions{}) {
		t.Errorf("without a LogCluster: got %+v", got)
	}
}

func TestReplicasComeFromTopicThenCluster(t *testing.T) {
	three := clusterWith(settingsOf(t, `{replicas: 3}`))
	for _, test := range []struct {
		topic   string
		cluster *v1alpha1.LogCluster
		want    int
	}{{`{replicas: 2}`, three, 2}, {`{}`, three, 3}, {`{}`, nil, 1},
		{`{}`, &v1alpha1.LogCluster{}, 1}} {
		if got := Replicas(settingsOf(t, test.topic), test.cluster); got != test.want {
			t.Errorf("%s: %d replicas, want %d", test.topic, got, test.want)
		}
	}
}

func TestCheckReplicas(t *testing.T) {
	safe := clusterWith(settingsOf(t, `{replicas: 3, minInSyncReplicas: 2}`))
	for topic, path := range map[string]string{
		`{}`: "", `{replicas: 2}`: "", `{minInSyncReplicas: 3}`: "",
		`{replicas: 1, minInSyncReplicas: 1}`: "", `{replicas: 1}`: "",
		`{minInSyncReplicas: 4}`: "spec.minInSyncReplicas",
	} {
		err := CheckReplicas(settingsOf(t, topic), safe)
		if path == "" && err != nil || path != "" &&
			(!errors.Is(err, ErrInvalidSettings) ||
				!strings.HasPrefix(err.Error(), path+": Invalid value")) {
			t.Errorf("%s: %v", topic, err)
		}
	}
	if err := CheckReplicas(settingsOf(t, `{}`), nil); err != nil {
		t.Error(err)
	}
}

// TestDefaultOfMinInSyncReplicasIsLimited checks that a default is lowered to the number of
// replicas, and follows changes of this number. The topic's own value must apply unchanged.
func TestDefaultOfMinInSyncReplicasIsLimited(t *testing.T) {
	for _, c := range []struct {
		topic, defaults string
		want            int
	}{
		{`{replicas: 1}`, `{replicas: 3, minInSyncReplicas: 2}`, 1},
		{`{replicas: 2}`, `{replicas: 3, minInSyncReplicas: 2}`, 2},
		{`{}`, `{replicas: 3, minInSyncReplicas: 2}`, 2},
		{`{}`, `{minInSyncReplicas: 2}`, 1},
		{`{replicas: 3, minInSyncReplicas: 1}`, `{minInSyncReplicas: 2}`, 1},
		{`{replicas: 3}`, `{}`, 1},
	} {
		got, err := ResolveSettings(settingsOf(t, c.topic), clusterWith(settingsOf(t, c.defaults)))
		if err != nil || got.MinInSyncReplicas != c.want {
			t.Errorf("%s with %s: got %d, error %v, want %d", c.topic, c.defaults,
				got.MinInSyncReplicas, err, c.want)
		}
	}
}

// TestSettingsRoundTripThroughTheirResource checks that random settings, converted to a resource
// with random cluster defaults, resolve to the same settings again.
func TestSettingsRoundTripThroughTheirResource(t *testing.T) {
	for seed := range seed.Sequence(t, 3000) {
		random := rand.New(rand.NewPCG(seed, 4))
		defaults := ResourceSettings(randomSettings(random))
		cluster := clusterWith(defaults)
		want := randomSettings(random)
		resource := ResourceSettings(want)
		text, err := yaml.Marshal(resource)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := ResolveSettings(settingsOf(t, string(text)), cluster)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: settings (-want +got):\n%s\n%s", seed, diff,
				text)
		}
	}
}

func randomSettings(random *rand.Rand) topicconfig.Settings {
	s := topicconfig.Default()
	some := func(change func()) {
		if random.IntN(2) == 0 {
			change()
		}
	}
	milliseconds := func(lowest int64) time.Duration {
		return time.Duration(lowest+
			random.Int64N(1e9)) * time.Millisecond
	}
	some(func() { s.Delete, s.Compact = false, true })
	some(func() { s.Compact = true })
	some(func() { s.DeleteFirst = s.Compact && s.Delete })
	some(func() { s.RecordBytesMax = 1 + random.IntN(1<<30) })
	some(func() { s.MinDirtyPercent = float64(random.IntN(100_001)) / 1000 })
	some(func() { s.MaxGarbagePercent = random.IntN(100) })
	some(func() {
		s.CleanCodec = topicconfig.CleanCodec{Set: true, Codec: compress.Codec(random.IntN(5)),
			Level: compress.LevelDefault}
	})
	some(func() { s.MinLag = milliseconds(0) })
	some(func() { s.MaxLag = s.MinLag + milliseconds(1) })
	some(func() { s.TombstoneRetention = milliseconds(0) })
	some(func() { s.KeepCodec, s.Codec = false, compress.Codec(random.IntN(5)) })
	some(func() { s.RetentionTime = milliseconds(0) })
	some(func() { s.RetentionTime = topicconfig.Unlimited })
	some(func() { s.RetentionBytes = random.Int64N(1 << 40) })
	some(func() { s.SegmentBytes = topicconfig.SegmentBytesMin + random.Int64N(1<<30) })
	some(func() { s.SegmentAge = milliseconds(1) })
	some(func() { s.MessageBytesMax = random.IntN(1 << 30) })
	some(func() { s.TimestampType = record.LogAppendTime })
	some(func() { s.Fsync = true })
	some(func() { s.SegmentJitter = milliseconds(0) })
	some(func() { s.SegmentIndexBytes = topicconfig.SegmentIndexBytesMin + random.IntN(1<<20) })
	some(func() { s.IndexIntervalBytes = random.IntN(1 << 20) })
	some(func() { s.TimestampBeforeMax = milliseconds(0) })
	some(func() { s.TimestampAfterMax = milliseconds(0) })
	some(func() { s.TimestampAfterMax = topicconfig.Unlimited })
	some(func() { s.WithoutEffect.FlushInterval = milliseconds(1000) })
	some(func() { s.WithoutEffect.FileDeleteDelay = milliseconds(0) })
	some(func() { s.WithoutEffect.Preallocate = true })
	some(func() { s.UncleanElection = true })
	some(func() { s.MinInSyncReplicas = 1 + random.IntN(15) })
	if lowest, highest, _, ok := s.Codec.Levels(); ok {
		if level := max(lowest, -20) + random.IntN(highest); level <= highest && level != 0 &&
			level != topicconfig.DefaultLevel(s.Codec) {
			some(func() { s.CodecLevel = level })
		}
	}
	return s
}

func parseYAML(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
