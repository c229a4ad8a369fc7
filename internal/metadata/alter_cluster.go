package metadata

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// AlteredCluster returns a copy of the LogCluster with changed settings. Fields that the change
// does not name keep their values. AlteredCluster checks each value separately; the caller checks
// the schema rules that compare fields.
func AlteredCluster(cluster *v1alpha1.LogCluster,
	change ClusterChange) (*v1alpha1.LogCluster, error) {
	if change.Group != "" {
		return alteredGroup(cluster, change)
	}
	properties := change.Properties
	if change.Replace {
		properties = clusterReplacement(properties)
	}
	altered := cluster.DeepCopy()
	named := map[string]bool{}
	var topic []PropertyChange
	for _, p := range properties {
		if named[p.Name] {
			return nil, errorf(ErrInvalidProperty, "%s is named more than once", p.Name)
		}
		named[p.Name] = true
		property := brokerconfig.Find(p.Name)
		if err := checkChange(property, p); err != nil {
			return nil, err
		}
		if property == nil || !property.Alterable() {
			continue // the deletion has no effect
		}
		if property.Topic != "" {
			topic = append(topic, PropertyChange{Name: property.Topic, Op: p.Op, Value: p.Value})
			continue
		}
		if p.Op == PropertyDelete {
			property.Reset(&altered.Spec)
		} else if err := property.Set(&altered.Spec, p.Value); err != nil {
			return nil, &kindError{err, ErrInvalidProperty}
		}
	}
	return altered, alterDefaults(altered, topic)
}

// checkChange returns an error if a change sets an unknown setting (property is nil) or a read-only
// setting, or appends to a setting that is not a list.
func checkChange(property *brokerconfig.Property, p PropertyChange) error {
	switch {
	case p.Op == PropertyDelete:
		return nil // as in Kafka, deleting a setting that is not set has no effect
	case property == nil:
		return errorf(ErrInvalidProperty,
			"cannot update these configs dynamically: [%s]: the setting is unknown", p.Name)
	case !property.Alterable():
		reason := "the setting is read-only"
		if property.Field != "" {
			reason += "; it depends on " + property.Field + " of the LogCluster"
		}
		return errorf(ErrInvalidProperty, "cannot update these configs dynamically: [%s]: %s",
			p.Name, reason)
	case p.Op == PropertySet:
		return nil
	case property.Type != "list" || property.Topic == "":
		return errorf(ErrInvalidSettings,
			"config value append is not allowed for config key: %s", p.Name)
	}
	return nil
}

// clusterReplacement adds a deletion for each alterable setting that is not in properties.
func clusterReplacement(properties []PropertyChange) []PropertyChange {
	named := map[string]bool{}
	for _, p := range properties {
		named[p.Name] = true
	}
	var all []PropertyChange
	for _, p := range brokerconfig.All() {
		if p.Alterable() && !named[p.Name] {
			all = append(all, PropertyChange{Name: p.Name, Op: PropertyDelete})
		}
	}
	return append(all, properties...)
}

// alterDefaults changes spec.topicDefaults. The changes use the names of topic properties.
func alterDefaults(cluster *v1alpha1.LogCluster, properties []PropertyChange) error {
	if len(properties) == 0 {
		return nil
	}
	var defaults v1alpha1.TopicDefaults
	if cluster.Spec.TopicDefaults != nil {
		defaults = *cluster.Spec.TopicDefaults
	}
	altered, err := alteredSettings(defaults.TopicSettings, properties, nil)
	if err != nil {
		return &kindError{err, ErrInvalidProperty}
	}
	defaults.TopicSettings = altered
	cluster.Spec.TopicDefaults = nilIfZero(defaults)
	return nil
}

// CheckTopics returns an error that wraps ErrInvalidSettings if a change of the LogCluster makes a
// topic's settings invalid, for example because a default is above a limit that the topic sets.
func CheckTopics(topics []*v1alpha1.Topic, before, after *v1alpha1.LogCluster) error {
	for _, topic := range topics {
		if checkTopic(topic, before) != nil {
			continue // the topic was already invalid before the change
		}
		if err := checkTopic(topic, after); err != nil {
			return fmt.Errorf("topic %q would become invalid: %w", topic.KafkaName(), err)
		}
	}
	return nil
}

func checkTopic(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) error {
	if _, err := ResolveTopic(topic, cluster); err != nil {
		return err
	}
	return CheckReplicas(topic.Spec.TopicSettings, cluster)
}

// ClusterProperties returns a LogCluster's broker settings by their Kafka names, or none for a nil
// LogCluster. The result omits invalid defaults of topic properties.
func ClusterProperties(cluster *v1alpha1.LogCluster) map[string]string {
	if cluster == nil {
		return nil
	}
	set := brokerconfig.Get(&cluster.Spec)
	if cluster.Spec.TopicDefaults == nil {
		return set
	}
	defaults := cluster.Spec.TopicDefaults.TopicSettings
	resolved, err := ResolveSettings(defaults, nil)
	if err != nil {
		return set
	}
	own := ownProperties(defaults)
	for _, p := range resolved.Properties() {
		if slices.Contains(own, p.Name) {
			set[brokerconfig.OfTopic(p.Name).Name] = p.Value
		}
	}
	return set
}

// isWritten reports whether settings, in the form of JSON, contain a topic property's field.
func isWritten(settings map[string]any, property string) bool {
	path := fields[property]
	value, ok := settings[path[0]]
	group, _ := value.(map[string]any)
	switch {
	case !ok:
		return false
	case property == "compression.type":
		_, ok = group["type"]
		return ok
	case path[0] == "compression":
		// The level belongs to the codec that the group names.
		_, hasLevel := group["level"]
		return hasLevel && property == fmt.Sprintf("compression.%s.level", group["type"])
	case len(path) == 1:
		return true
	}
	_, ok = group[path[1]]
	return ok
}

// ownProperties returns the sorted names of the properties that a resource's settings contain.
func ownProperties(settings v1alpha1.TopicSettings) []string {
	written, own := map[string]any{}, []string(nil)
	if convert(settings, &written) != nil {
		return nil // ResolveSettings reports invalid settings
	}
	for _, p := range topicconfig.Default().Properties() {
		if isWritten(written, p.Name) {
			own = append(own, p.Name)
		}
	}
	return own
}

// HasChange reports whether an image contains every value that a change sets, and no value that it
// deletes. set contains the image's ClusterProperties.
func HasChange(set map[string]string, change ClusterChange) bool {
	properties := change.Properties
	if change.Replace {
		properties = clusterReplacement(properties)
	}
	var sets []PropertyChange
	for _, p := range properties {
		if p.Op == PropertySet {
			sets = append(sets, p)
		}
	}
	alone, err := AlteredCluster(&v1alpha1.LogCluster{}, ClusterChange{Properties: sets})
	if err != nil {
		// A value may be valid only together with others, such as the level of a codec. The store has
		// accepted the change.
		return true
	}
	requested := ClusterProperties(alone)
	for _, p := range properties {
		want, isSet := requested[p.Name]
		if value, ok := set[p.Name]; p.Op <= PropertyDelete && (ok != isSet || value != want) {
			return false
		}
	}
	return true
}
