package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// errorf formats an error that wraps kind.
func errorf(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// AlteredTopic returns a copy of the Topic resource with changed settings. A field that the change
// does not name keeps its value, even if the value equals a default. cluster may be nil.
func AlteredTopic(topic *v1alpha1.Topic, change TopicChange,
	cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
	properties := change.Properties
	if change.Replace {
		properties = replacement(properties)
	}
	settings, err := alteredSettings(topic.Spec.TopicSettings, properties, cluster)
	if err != nil {
		return nil, err
	}
	altered := topic.DeepCopy()
	altered.Spec.TopicSettings = settings
	return altered, CheckReplicas(settings, cluster)
}

// alteredSettings returns a copy of settings, which belong to a resource, with changes. An error
// about a property wraps ErrInvalidSettings.
func alteredSettings(settings v1alpha1.TopicSettings, properties []PropertyChange,
	cluster *v1alpha1.LogCluster) (v1alpha1.TopicSettings, error) {
	base, err := ResolveSettings(v1alpha1.TopicSettings{}, cluster)
	if err != nil {
		return settings, err
	}
	before, err := ResolveSettings(settings, cluster)
	if err != nil {
		return settings, err
	}
	after, cleared, err := alter(before, base, properties)
	if err != nil {
		return settings, &kindError{err, ErrInvalidSettings}
	}
	changed := ResourceSettings(after, before)
	if slices.ContainsFunc(cleared,
		func(name string) bool { return slices.Equal(fields[name], []string{"compression"}) }) {
		// The group compression is replaced as a whole: by the values in after that differ from the
		// defaults, or by nil if none differs.
		changed.Compression = ResourceSettings(after, base).Compression
	}
	altered, err := rewritten(settings, changed, cleared)
	if err != nil {
		return settings, err
	}
	// The settings that were built must resolve to the settings in after; cleared fields resolve to
	// the cluster's defaults. A difference means that the table fields is wrong.
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

// replacement prepends a deletion of each property that is not in properties. AlterConfigs, the
// request before KIP-339, resets these properties.
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

// alter applies property changes to the settings in the parameter before. A deletion restores the
// value in base; cleared contains the names of the deleted properties. Deletions are applied first,
// so that the level of the old codec is deleted before another codec is set.
func alter(before, base topicconfig.Settings,
	properties []PropertyChange) (after topicconfig.Settings, cleared []string, err error) {
	after = before
	set, named := map[string]string{}, map[string]bool{}
	for _, p := range properties {
		if named[p.Name] {
			return before, nil, fmt.Errorf("property %s is named more than once", p.Name)
		}
		named[p.Name] = true
		if p.Op == PropertyDelete {
			after.Reset(p.Name, base)
			cleared = append(cleared, p.Name)
		}
	}
	for _, p := range properties {
		switch p.Op {
		case PropertyDelete:
		case PropertySet:
			set[p.Name] = p.Value
		case PropertyAppend, PropertySubtract:
			if set[p.Name], err = after.Listed(p.Name, p.Value,
				p.Op == PropertyAppend); err != nil {
				return before, nil, err
			}
		default:
			return before, nil, fmt.Errorf("unknown operation %d on property %s", p.Op, p.Name)
		}
	}
	err = after.SetAll(set) // changes after, so it must run before the return statement
	return after, cleared, err
}

// fields maps each Kafka property to the path of its field in a Topic's spec.
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

// rewritten returns a copy of the resource's settings in the parameter written. It merges in the
// fields of the parameter changed, and removes the fields of the cleared properties. It replaces
// the group compression as a whole (resolver.compression). The parameter changed contains either
// all fields of the group or none.
func rewritten(written, changed v1alpha1.TopicSettings, cleared []string) (v1alpha1.TopicSettings,
	error) {
	to, over := map[string]any{}, map[string]any{}
	if err := convert(written, &to); err != nil {
		return written, err
	}
	if err := convert(changed, &over); err != nil {
		return written, err
	}
	for _, name := range cleared {
		if path := fields[name]; path != nil {
			clearField(to, path)
			if path[0] != "compression" {
				clearField(over, path)
			}
		}
	}
	for name, value := range over {
		group, isGroup := value.(map[string]any)
		existing, exists := to[name].(map[string]any)
		if isGroup && exists && name != "compression" {
			maps.Copy(existing, group)
		} else {
			to[name] = value
		}
	}
	var result v1alpha1.TopicSettings
	err := convert(to, &result) // fills result, so it must run before the return statement
	return result, err
}

// clearField removes the field at path, which has one or two elements. If the field was the last
// one in its group, clearField also removes the group.
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

// convert copies one value to another through JSON: settings to a map, or a map to settings.
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
// number is not above the present one, or above partitionsMax, or if the assignment is invalid. The
// number and the assignment are written together, because the operator creates the partitions as
// soon as it reads the number.
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
	// Entries of partitions that exist in the spec are kept: the operator may not have created them
	// yet.
	grown.Spec.InitialReplicas = append(slices.DeleteFunc(grown.Spec.InitialReplicas,
		func(r v1alpha1.InitialReplicas) bool { return r.Partition >= existing }),
		initialReplicas(more.Assignment, existing)...)
	return grown, CheckAssignment(more.Assignment, int(existing),
		Replicas(topic.Spec.TopicSettings, cluster), brokers)
}
