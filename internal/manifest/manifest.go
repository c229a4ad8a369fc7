package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Set contains the objects in the loaded manifests.
type Set struct {
	Cluster *v1alpha1.LogCluster // at most one
	Topics  []*v1alpha1.Topic    // sorted by Kafka name
	Users   []*v1alpha1.LogUser  // sorted by name

	files map[string]string // file of each resource, by Kind/name
	read  []string          // files that were read
}

// Files returns the files that were read, including files without a resource.
func (s *Set) Files() []string { return s.read }

// Resources returns each resource's file, by Kind/name.
func (s *Set) Resources() map[string]string { return s.files }

// File returns the file that contains the resource Kind/name, or "" if the set does not contain the
// resource.
func (s *Set) File(resource string) string { return s.files[resource] }

// Error is a fault in a manifest. Its text consists of the field's path, the API server's message,
// and the location in parentheses.
type Error struct {
	File     string // empty for faults of CheckUpdate
	Resource string // Kind/name; empty if the file could not be parsed
	Message  string // such as "spec.compression.level: Invalid value: 30: ..."
}

func (e *Error) Error() string {
	where := strings.TrimSpace(e.File + " " + e.Resource)
	if where == "" {
		return e.Message
	}
	return e.Message + " (" + where + ")"
}

// Load reads files and directories (*.yaml, *.yml, *.json, with several documents per file). It
// sets the defaults in the CRDs, and validates every object as the API server does: unknown fields,
// schema, CEL rules. It skips objects of other kinds. It fails if it finds neither a LogCluster nor
// a Topic, because a wrong path must not delete all topics. The error joins all faults with
// errors.Join; each fault is an *Error.
func Load(paths []string) (*Set, error) {
	l := loader{set: &Set{files: map[string]string{}}, taken: map[string]*v1alpha1.Topic{}}
	for _, path := range paths {
		files, err := find(path)
		if err != nil {
			l.faults = append(l.faults, &Error{File: path, Message: err.Error()})
		}
		for _, file := range files {
			l.load(file)
		}
	}
	for _, topic := range l.set.Topics {
		l.checkCluster(topic)
	}
	for _, user := range l.set.Users {
		l.checkUser(user)
	}
	slices.SortFunc(l.set.Users,
		func(a, b *v1alpha1.LogUser) int { return cmp.Compare(a.Name, b.Name) })
	if len(l.faults) == 0 && l.set.Cluster == nil && len(l.set.Topics) == 0 {
		l.faults = append(l.faults,
			&Error{File: strings.Join(paths, " "), Message: "no LogCluster or Topic found"})
	}
	slices.SortFunc(l.set.Topics,
		func(a, b *v1alpha1.Topic) int { return cmp.Compare(a.KafkaName(), b.KafkaName()) })
	if len(l.faults) > 0 {
		return nil, errors.Join(l.faults...)
	}
	return l.set, nil
}

// Check validates one LogCluster, Topic or LogUser like Load, and sets its defaults. The error
// joins all faults.
func Check(content map[string]any) error {
	l := loader{set: &Set{files: map[string]string{}}, taken: map[string]*v1alpha1.Topic{}}
	l.add(object{content: content})
	return errors.Join(l.faults...)
}

// loader builds a Set.
type loader struct {
	set    *Set
	taken  map[string]*v1alpha1.Topic // loaded topics by Kafka name
	faults []error
}

// load adds a file's objects and faults.
func (l *loader) load(file string) {
	objects, faults := read(file)
	l.set.read = append(l.set.read, file)
	l.faults = append(l.faults, faults...)
	for _, o := range objects {
		l.add(o)
	}
}

// add validates an object of the heartwood.dev group and adds it to the set.
func (l *loader) add(o object) {
	apiVersion, kind := o.content["apiVersion"].(string), o.content["kind"].(string)
	if group, _, _ := strings.Cut(apiVersion, "/"); group != v1alpha1.GroupVersion.Group {
		return
	}
	switch {
	case apiVersion != v1alpha1.GroupVersion.String(),
		!slices.Contains([]string{"LogCluster", "Topic", "LogUser", "PartitionSet"}, kind):
		l.fault(o, fmt.Sprintf("kind: no matches for kind %q in version %q", kind, apiVersion))
	case kind == "LogCluster":
		cluster := &v1alpha1.LogCluster{}
		if l.check(o, &logClusterRules, cluster) {
			l.addCluster(o, cluster)
		}
	case kind == "Topic":
		topic := &v1alpha1.Topic{}
		if l.check(o, &topicRules, topic) {
			l.addTopic(o, topic)
		}
	case kind == "LogUser":
		user := &v1alpha1.LogUser{}
		if l.check(o, &logUserRules, user) {
			l.addUser(o, user)
		}
	}
	// PartitionSets are ignored, because the operator owns them.
}

// check validates an object and converts it to its type. The conversion can fail for values that
// the schema does not exclude, such as numbers out of range.
func (l *loader) check(o object, cache *cachedRules, into any) bool {
	r, err := cache.load()
	if err != nil {
		l.fault(o, "load validation rules: "+err.Error())
		return false
	}
	faults := r.create(o.content)
	for _, text := range messages(faults) {
		l.fault(o, text)
	}
	if len(faults) > 0 {
		return false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, into); err != nil {
		l.fault(o, "spec: "+err.Error())
		return false
	}
	return true
}

// addCluster adds a LogCluster. It rejects a second LogCluster.
func (l *loader) addCluster(o object, cluster *v1alpha1.LogCluster) {
	if first := l.set.Cluster; first != nil {
		l.fault(o, field.Invalid(field.NewPath("metadata", "name"), cluster.Name, fmt.Sprintf(
			"only one LogCluster is allowed, and %s contains LogCluster %s",
			l.set.File("LogCluster/"+first.Name), first.Name)).Error())
		return
	}
	if err := cluster.Spec.ValidatePeers(); err != nil {
		l.fault(o, "spec.peers: Invalid value: "+err.Error())
		return
	}
	l.set.Cluster = cluster
	l.set.files["LogCluster/"+cluster.Name] = o.file
}

// addTopic adds a Topic. It rejects a second Topic with the same resource name, which kubectl would
// treat as an update. It also rejects a second Topic with the same Kafka name, which would never
// become ready on Kubernetes.
func (l *loader) addTopic(o object, topic *v1alpha1.Topic) {
	name, path := topic.KafkaName(), field.NewPath("metadata", "name")
	if file := l.set.File("Topic/" + topic.Name); file != "" {
		l.fault(o, fmt.Sprintf("%s: %s contains a Topic of this name",
			field.Duplicate(path, topic.Name),
			file))
		return
	}
	if first := l.taken[name]; first != nil {
		if topic.Spec.TopicName != "" {
			path = field.NewPath("spec", "topicName")
		}
		l.fault(o, fmt.Sprintf("%s: the Topic %s in %s has this name", field.Duplicate(path, name),
			first.Name,
			l.set.File("Topic/"+first.Name)))
		return
	}
	l.taken[name] = topic
	l.set.files["Topic/"+topic.Name] = o.file
	l.set.Topics = append(l.set.Topics, topic)
}

// checkCluster checks that a topic belongs to the LogCluster in the manifests. If the manifests
// contain no LogCluster, the topic must belong to the first topic's cluster. On Kubernetes, a topic
// of another cluster would never become ready.
func (l *loader) checkCluster(topic *v1alpha1.Topic) {
	source := object{l.set.File("Topic/" + topic.Name),
		map[string]any{"kind": "Topic", "metadata": map[string]any{"name": topic.Name}}}
	cluster, first := l.set.Cluster, l.set.Topics[0]
	switch {
	case cluster == nil && topic.Spec.Cluster != first.Spec.Cluster:
		l.fault(source, field.Invalid(field.NewPath("spec", "cluster"), topic.Spec.Cluster, fmt.Sprintf(
			"only one cluster is allowed, and the Topic %s in %s belongs to cluster %s", first.Name,
			l.set.File("Topic/"+first.Name),
			first.Spec.Cluster)).Error())
	case cluster == nil:
	case topic.Spec.Cluster != cluster.Name:
		l.fault(source, field.Invalid(field.NewPath("spec", "cluster"), topic.Spec.Cluster, fmt.Sprintf(
			"the LogCluster of these manifests is %s: use its name", cluster.Name)).Error())
	case topic.Namespace != cluster.Namespace:
		l.fault(source, field.Invalid(field.NewPath("metadata", "namespace"), topic.Namespace,
			fmt.Sprintf(
				"the LogCluster %s is in namespace %s: use the same namespace for the Topic",
				cluster.Name, cluster.Namespace)).Error())
	}
}

// fault adds a fault for an object. The object may lack a valid kind, metadata or name.
func (l *loader) fault(o object, message string) {
	metadata, _ := o.content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	l.faults = append(l.faults,
		&Error{File: o.file, Resource: fmt.Sprintf("%v/%s", o.content["kind"], name),
			Message: message})
}
