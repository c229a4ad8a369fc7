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

// Set is what a folder of manifests says.
type Set struct {
	Cluster *v1alpha1.LogCluster // at most one
	Topics  []*v1alpha1.Topic    // sorted by the name clients use

	files map[string]string // by Kind/name
}

// File returns the file that holds a resource, named Kind/name as in Error; empty when none does.
func (s *Set) File(resource string) string { return s.files[resource] }

// Error is one fault of one manifest. Error() begins with the field path, then says what the API
// server would say, then where.
type Error struct {
	File     string // empty for CheckUpdate, which has no file
	Resource string // Kind/name; empty when the file cannot be read so far
	Message  string // as the API server gives it: "spec.compression.level: Invalid value: 30: ..."
}

func (e *Error) Error() string {
	where := strings.TrimSpace(e.File + " " + e.Resource)
	if where == "" {
		return e.Message
	}
	return e.Message + " (" + where + ")"
}

// Load reads files and folders (*.yaml, *.yml, *.json; several documents a file), applies the CRDs'
// defaults and checks every object as the API server would: unknown fields, schema, CEL rules.
// Other kinds are skipped. Without any LogCluster or Topic it fails: a wrong path must not read as
// the wish to have no topics. All faults come joined (errors.Join), each an *Error.
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

// loader gathers a Set.
type loader struct {
	set    *Set
	taken  map[string]*v1alpha1.Topic // by Kafka name
	faults []error
}

// load takes in one file; its faults do not keep other files from being checked.
func (l *loader) load(file string) {
	objects, faults := read(file)
	l.faults = append(l.faults, faults...)
	for _, o := range objects {
		l.add(o)
	}
}

// add checks an object of ours and takes it into the set.
func (l *loader) add(o object) {
	apiVersion, kind := o.content["apiVersion"].(string), o.content["kind"].(string)
	if group, _, _ := strings.Cut(apiVersion, "/"); group != v1alpha1.GroupVersion.Group {
		return
	}
	switch {
	case apiVersion != v1alpha1.GroupVersion.String(),
		kind != "LogCluster" && kind != "Topic" && kind != "Partition":
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
	}
	// A Partition is the operator's own, and a manifest of one says nothing that dev could do.
}

// check runs the rules and, when they hold, converts the object. The conversion can fail on what a
// schema cannot say, such as numbers beyond their type.
func (l *loader) check(o object, kept *keptRules, into any) bool {
	r, err := kept.load()
	if err != nil {
		l.fault(o, "check manifest: "+err.Error())
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

// addCluster refuses a second LogCluster: one process is one cluster.
func (l *loader) addCluster(o object, cluster *v1alpha1.LogCluster) {
	if first := l.set.Cluster; first != nil {
		l.fault(o, field.Invalid(field.NewPath("metadata", "name"), cluster.Name, fmt.Sprintf(
			"%s has the LogCluster %s already, and there can be one only",
			l.set.File("LogCluster/"+first.Name), first.Name)).Error())
		return
	}
	l.set.Cluster = cluster
	l.set.files["LogCluster/"+cluster.Name] = o.file
}

// addTopic refuses a second topic of a name, be it the resource's (kubectl would take the second
// for a change of the first) or the one that clients use (on Kubernetes the younger of the two
// never becomes ready).
func (l *loader) addTopic(o object, topic *v1alpha1.Topic) {
	name, path := topic.KafkaName(), field.NewPath("metadata", "name")
	if file := l.set.File("Topic/" + topic.Name); file != "" {
		l.fault(o, fmt.Sprintf("%s: %s has a Topic of this name", field.Duplicate(path, topic.Name),
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

// checkCluster checks that a topic belongs to the one cluster: the manifest's LogCluster (on
// Kubernetes a topic of another would wait for its own for ever) or, without one, the cluster of
// the first topic.
func (l *loader) checkCluster(topic *v1alpha1.Topic) {
	at := object{l.set.File("Topic/" + topic.Name),
		map[string]any{"kind": "Topic", "metadata": map[string]any{"name": topic.Name}}}
	cluster, first := l.set.Cluster, l.set.Topics[0]
	switch {
	case cluster == nil && topic.Spec.Cluster != first.Spec.Cluster:
		l.fault(at, field.Invalid(field.NewPath("spec", "cluster"), topic.Spec.Cluster, fmt.Sprintf(
			"the Topic %s in %s is of cluster %s, and there can be one only", first.Name,
			l.set.File("Topic/"+first.Name),
			first.Spec.Cluster)).Error())
	case cluster == nil:
	case topic.Spec.Cluster != cluster.Name:
		l.fault(at, field.Invalid(field.NewPath("spec", "cluster"), topic.Spec.Cluster, fmt.Sprintf(
			"the LogCluster of these manifests is %s: write its name", cluster.Name)).Error())
	case topic.Namespace != cluster.Namespace:
		l.fault(at, field.Invalid(field.NewPath("metadata", "namespace"), topic.Namespace,
			fmt.Sprintf(
				"the LogCluster %s is in namespace %s: a Topic lives beside its LogCluster",
				cluster.Name, cluster.Namespace)).Error())
	}
}

// fault notes a fault with the file and the resource it is in. The object may be of any shape: it
// need not have a name.
func (l *loader) fault(o object, message string) {
	metadata, _ := o.content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	l.faults = append(l.faults,
		&Error{File: o.file, Resource: fmt.Sprintf("%v/%s", o.content["kind"], name),
			Message: message})
}
