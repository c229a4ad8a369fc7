package metadata

import (
	"encoding/json"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// errorf formats an error that wraps kind.
func errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// AlteredTopic returns a copy of the Topic resource with changed settings. It writes every setting
// that the change sets, even if the value equals the effective default (ADR 0310). Other fields
// keep their values. cluster may be nil.
func AlteredTopic(topic *v1alpha1.Topic, change TopicChange,
	cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
	properties := change.Properties
	if change.Replace {
		properties = replacement(properties)
	}
	if err := checkInternalChange(topic, properties); err != nil {
		return nil, err
	}
	settings, err := alteredSettings(internalSettings(topic), properties, cluster)
	if err != nil {
		return nil, err
	}
	altered := topic.DeepCopy()
	altered.Spec.TopicSettings = settings
	if err := CheckInternal(altered, topic); err != nil {
		return nil, err
	}
	return altered, CheckReplicas(settings, cluster)
}

// alteredSettings returns a copy of a resource's settings with the given property changes. An error
// about a property wraps ErrInvalidSettings.
func alteredSettings(settings v1alpha1.TopicSettings, properties []PropertyChange,
	cluster *v1alpha1.LogCluster) (v1alpha1.TopicSettings, error) {
	base, err := ResolveSettings(v1alpha1.TopicSettings{Replicas: settings.Replicas}, cluster)
	if err != nil {
		return settings, err
	}
	before, err := ResolveSettings(settings, cluster)
	if err != nil {
		return settings, err
	}
	after, err := alter(before, base, properties)
	if err != nil {
		return settings, &kindError{err, ErrInvalidSettings}
	}
	altered, err := rewritten(settings, after, properties)
	if err != nil {
		return settings, err
	}
	if altered.Compression == nil {
		// CleanCodec has no Kafka name; it is deleted together with its group
		after.CleanCodec = base.CleanCodec
	}
	// The built settings must resolve to the settings in after, where cleared fields resolve to the
	// cluster's defaults. Otherwise the table fields is wrong.
	written, err := ResolveSettings(altered, cluster)
	if err != nil {
		return settings, fmt.Errorf("resolve the altered settings: %w", err)
	}
	if written != after {
		return settings, fmt.Errorf(
			"settings cannot be expressed as a resource: got %+v, want %+v", written, after)
	}
	return altered, nil
}

// replacement prepends a deletion for each property that is not in properties. AlterConfigs, the
// predecessor of IncrementalAlterConfigs (KIP-339), resets these properties.
func replacement(properties []PropertyChange) []PropertyChange {
	named := map[string]bool{}
	for _, p := range properties {
		named[p.Name] = true
	}
	var all []PropertyChange
	for _, p := range topicconfig.Default().Properties() {
		if !named[p.Name] {
			all = append(all, PropertyChange{Name: p.Name, Op: PropertyDelete})
		}
	}
	return append(all, properties...)
}

// alter applies property changes to the settings before. A deletion restores the value in base.
// alter applies deletions first, so that the level of the old codec is deleted before another codec
// is set.
func alter(before, base topicconfig.Settings,
	properties []PropertyChange) (topicconfig.Settings, error) {
	after := before
	set, named := map[string]string{}, map[string]bool{}
	for _, p := range properties {
		if named[p.Name] {
			return before, fmt.Errorf("property %s is named more than once", p.Name)
		}
		named[p.Name] = true
		if p.Op == PropertyDelete {
			after.Reset(p.Name, base)
		}
	}
	for _, p := range properties {
		switch p.Op {
		case PropertyDelete:
		case PropertySet:
			set[p.Name] = p.Value
		case PropertyAppend, PropertySubtract:
			var err error
			if set[p.Name], err = after.Listed(p.Name, p.Value,
				p.Op == PropertyAppend); err != nil {
				return before, err
			}
		default:
			return before, fmt.Errorf("unknown operation %d on property %s", p.Op, p.Name)
		}
	}
	err := after.SetAll(set) // SetAll changes after, so it must run before the return statement
	return after, err
}

// fields maps each Kafka property to the path of its field in the Topic's spec.
var fields = map[string][]string{
	"cleanup.policy":                  {"cleanupPolicy"},
	"compression.type":                {"compression"},
	"compression.gzip.level":          {"compression"},
	"compression.lz4.level":           {"compression"},
	"compression.zstd.level":          {"compression"},
	"delete.retention.ms":             {"compaction", "tombstoneRetention"},
	"file.delete.delay.ms":            {"withoutEffect", "fileDeleteDelay"},
	"flush.messages":                  {"durability"},
	"flush.ms":                        {"withoutEffect", "flushInterval"},
	"index.interval.bytes":            {"segment", "indexInterval"},
	"max.compaction.lag.ms":           {"compaction", "maxLag"},
	"max.decompressed.message.bytes":  {"maxRecordSize"},
	"max.message.bytes":               {"maxMessageSize"},
	"message.timestamp.after.max.ms":  {"timestampLimits", "future"},
	"message.timestamp.before.max.ms": {"timestampLimits", "past"},
	"message.timestamp.type":          {"timestampType"},
	"min.cleanable.dirty.ratio":       {"compaction", "minDirtyPercent"},
	"min.compaction.lag.ms":           {"compaction", "minLag"},
	"min.insync.replicas":             {"minInSyncReplicas"},
	"preallocate":                     {"withoutEffect", "preallocate"},
	"retention.bytes":                 {"retention", "size"},
	"retention.ms":                    {"retention", "time"},
	"segment.bytes":                   {"segment", "size"},
	"segment.index.bytes":             {"segment", "indexSize"},
	"segment.jitter.ms":               {"segment", "jitter"},
	"segment.ms":                      {"segment", "maxAge"},
	"unclean.leader.election.enable":  {"uncleanLeaderElection"},
}

// rewritten returns a copy of a resource's settings. It sets the fields of the properties that were
// set to their values in after, and removes the fields of the deleted properties.
func rewritten(written v1alpha1.TopicSettings, after topicconfig.Settings,
	properties []PropertyChange) (v1alpha1.TopicSettings, error) {
	to, all := map[string]any{}, map[string]any{}
	if err := convert(written, &to); err != nil {
		return written, err
	}
	if err := convert(ResourceSettings(after), &all); err != nil {
		return written, err
	}
	for _, p := range properties {
		path := fields[p.Name]
		switch {
		case len(path) == 0 || path[0] == "compression":
		case p.Op == PropertyDelete:
			clearField(to, path)
		default:
			copyField(to, all, path)
		}
	}
	var result v1alpha1.TopicSettings
	if err := convert(to, &result); err != nil {
		return result, err
	}
	result.Compression = rewrittenCompression(written.Compression, after, properties)
	return result, nil
}

// rewrittenCompression returns the field group compression after changes of its properties. The
// resource has only one level, which belongs to its type. So a change that sets a level also writes
// the type, and a change of the type also writes the level, unless the level is the codec's
// default.
func rewrittenCompression(written *v1alpha1.Compression, after topicconfig.Settings,
	properties []PropertyChange) *v1alpha1.Compression {
	resolved := compression(after)
	var group v1alpha1.Compression
	if written != nil {
		group = *written.DeepCopy()
	}
	deletions, sets := map[string]bool{}, map[string]bool{}
	for _, p := range properties {
		if path := fields[p.Name]; len(path) > 0 && path[0] == "compression" {
			deletions[p.Name], sets[p.Name] = p.Op == PropertyDelete, p.Op != PropertyDelete
		}
	}
	if len(deletions)+len(sets) == 0 {
		return written
	}
	level := fmt.Sprintf("compression.%s.level", after.Codec)
	if deletions["compression.type"] {
		group.Type, group.Level = "", nil
	}
	if deletions[level] || group.Type != resolved.Type {
		group.Level = nil
	}
	if group.Type != "" || sets["compression.type"] || sets[level] && !after.KeepCodec {
		group.Type = resolved.Type
		if sets[level] || group.Level != nil || after.CodecLevel != compress.LevelDefault {
			group.Level = resolved.Level
		}
		if group.Clean == nil {
			// Use the cluster's value, because a group in the Topic replaces the cluster's whole group.
			group.Clean = resolved.Clean
		}
	}
	return nilIfZero(group)
}

// copyField copies the field at a path of one or two elements.
func copyField(to, from map[string]any, path []string) {
	if len(path) == 1 {
		to[path[0]] = from[path[0]]
		return
	}
	group, ok := to[path[0]].(map[string]any)
	if !ok {
		group = map[string]any{}
		to[path[0]] = group
	}
	all, _ := from[path[0]].(map[string]any)
	group[path[1]] = all[path[1]]
}

// clearField removes the field at a path of one or two elements. If the field was the last one in
// its group, clearField also removes the group.
func clearField(from map[string]any, path []string) {
	if len(path) == 1 {
		delete(from, path[0])
		return
	}
	group, ok := from[path[0]].(map[string]any)
	if !ok {
		return
	}
	if delete(group, path[1]); len(group) == 0 {
		delete(from, path[0])
	}
}

// convert converts a value to another type through JSON: settings to a map, or a map to settings.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("convert topic settings: %w", err)
	}
	return nil
}

// GrownTopic returns a copy of the Topic resource with more partitions. It fails if the requested
// number is not above the current one, if it is above partitionsMax, or if the assignment is
// invalid. The number and the assignment are written together, because the operator creates the
// partitions as soon as it reads the number.
func GrownTopic(topic *v1alpha1.Topic, more NewPartitions, cluster *v1alpha1.LogCluster,
	brokers Brokers) (*v1alpha1.Topic, error) {
	existing, count := topic.Spec.Partitions, more.Count
	switch {
	case existing == 0:
		return nil, errorf(ErrTopicNotFound,
			"the operator has not created the partitions of %q yet", topic.KafkaName())
	case count <= existing:
		return nil, errorf(ErrInvalidPartitions,
			"%d partitions exist and %d are requested: the number can only grow", existing,
			count)
	case count > partitionsMax:
		return nil, errorf(ErrInvalidPartitions, "%d requested, at most %d are allowed", count,
			partitionsMax)
	case InternalTopic(topic.KafkaName()):
		return nil, errorf(
			ErrInvalidPartitions,
			"%q must keep its %d partitions: a hash assigns each group and transactional id to one of them",
			topic.KafkaName(),
			existing,
		)
	}
	grown := topic.DeepCopy()
	grown.Spec.Partitions = count
	if more.Assignment == nil {
		return grown, nil
	}
	if added := int(count - existing); len(more.Assignment) != added {
		return nil, errorf(ErrInvalidAssignment,
			"%d partitions are to be added, and %d assignments are given", added,
			len(more.Assignment))
	}
	// Keep the entries of partitions that exist in the spec, because the operator may not have created
	// these partitions yet.
	grown.Spec.InitialReplicas = append(slices.DeleteFunc(grown.Spec.InitialReplicas,
		func(r v1alpha1.InitialReplicas) bool { return r.Partition >= existing }),
		initialReplicas(more.Assignment, existing)...)
	return grown, CheckAssignment(more.Assignment, int(existing),
		Replicas(topic.Spec.TopicSettings, cluster), brokers)
}
