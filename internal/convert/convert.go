package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
)

// group is the API group of Strimzi's resources.
const group = "kafka.strimzi.io"

// clusterLabel is the label by which Strimzi's resources name their Kafka.
const clusterLabel = "strimzi.io/cluster"

// managedAnnotation is "false" at a KafkaTopic that Strimzi ignores.
const managedAnnotation = "strimzi.io/managed"

// Remark describes a part of a source object that has no counterpart.
type Remark struct {
	Object string // such as Kafka/main
	Path   string // such as spec.kafka.jvmOptions; "": the whole object
	Text   string
	// Lost means that the converted cluster behaves differently. Otherwise nothing has to be done.
	Lost bool
}

func (r Remark) String() string {
	where := r.Object
	if r.Path != "" {
		where += " " + r.Path
	}
	return strings.Map(printable, where+": "+r.Text)
}

// printable replaces characters of the source that end a comment in YAML or control a terminal.
func printable(r rune) rune {
	if r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Document is a converted object with its remarks.
type Document struct {
	// Object is a *LogCluster, *Topic or *LogUser. It is nil if the source object has no counterpart.
	Object  metav1.Object
	Remarks []Remark
}

// Lost returns the remarks about losses in all documents.
func Lost(documents []Document) (lost []Remark) {
	for _, document := range documents {
		for _, remark := range document.Remarks {
			if remark.Lost {
				lost = append(lost, remark)
			}
		}
	}
	return lost
}

// Strimzi converts the objects of Strimzi's manifests, in their order. Each KafkaNodePool is
// converted together with its Kafka. Objects of other groups become remarks. The error joins the
// objects of other versions and the objects that occur twice, or the objects that Heartwood's
// validation rejects in spite of the conversion.
func Strimzi(objects []map[string]any) ([]Document, error) {
	c := converter{pools: map[string][]*source{}, clusters: map[string]bool{},
		seen: map[string]bool{}}
	var faults []error
	for _, content := range objects {
		faults = append(faults, c.add(content))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	var documents []Document
	for _, s := range c.sources {
		documents = append(documents, c.convert(s))
	}
	return documents, check(documents)
}

// converter contains the objects that belong to several results.
type converter struct {
	sources  []*source
	pools    map[string][]*source // by namespace/cluster
	clusters map[string]bool      // the Kafkas, by namespace/name
	seen     map[string]bool      // the objects, by namespace/kind/name
}

// add returns an error if the object has another version, or occurs twice.
func (c *converter) add(content map[string]any) error {
	s := newSource("", content)
	version, strimzi := strings.CutPrefix(s.text("apiVersion"), group+"/")
	if strimzi && !slices.Contains([]string{"v1", "v1beta2"}, version) {
		return fmt.Errorf("%s: the version is %s/%s: v1 and v1beta2 can be converted", s.object(),
			group, version)
	}
	if key := s.namespace() + "/" + s.object(); strimzi && c.seen[key] {
		return fmt.Errorf("%s is there twice, in namespace %q: remove one", s.object(),
			s.namespace())
	} else if strimzi {
		c.seen[key] = true
	}
	c.sources = append(c.sources, s)
	switch s.kind() {
	case "KafkaNodePool":
		c.pools[s.clusterKey()] = append(c.pools[s.clusterKey()], s)
	case "Kafka":
		c.clusters[s.namespace()+"/"+s.name()] = true
	}
	return nil
}

// convert converts one object.
func (c *converter) convert(s *source) Document {
	switch s.kind() {
	case "Kafka":
		return newCluster(s, c.pools[s.namespace()+"/"+s.name()]).document()
	case "KafkaNodePool":
		return c.pool(s)
	case "KafkaTopic":
		return newTopic(s).document()
	case "KafkaUser":
		return newUser(s).document()
	}
	text, lost := "not a resource of Strimzi: apply it unchanged, if it is still needed", false
	switch group, _, _ := strings.Cut(s.text("apiVersion"), "/"); {
	case s.kind() != "":
		text, lost = cmp.Or(withoutCounterpart[s.kind()], "unknown kind"), true
	case strings.HasSuffix(group, ".strimzi.io"):
		text = "an object of Strimzi's operator, which Heartwood does not need"
	}
	return Document{Remarks: []Remark{{Object: s.object(), Text: text, Lost: lost}}}
}

// pool returns the remark for a KafkaNodePool. It is empty if the Kafka's document contains the
// pool.
func (c *converter) pool(s *source) Document {
	if c.clusters[s.clusterKey()] {
		return Document{}
	}
	return Document{Remarks: []Remark{{Object: s.object(), Lost: true, Text: fmt.Sprintf(
		"the manifests contain no Kafka %q: convert the pool together with its Kafka",
		s.cluster())}}}
}

// withoutCounterpart contains Strimzi's other kinds.
var withoutCounterpart = map[string]string{
	"KafkaConnect":      "Heartwood runs no Kafka Connect: run it elsewhere with Heartwood's address",
	"KafkaConnector":    "Heartwood runs no Kafka Connect: run it elsewhere with Heartwood's address",
	"KafkaBridge":       "Heartwood has no HTTP bridge for records: run the bridge elsewhere",
	"KafkaMirrorMaker2": "Heartwood runs no MirrorMaker: run it elsewhere with Heartwood's address",
	"KafkaMirrorMaker":  "Heartwood runs no MirrorMaker: run it elsewhere with Heartwood's address",
	"KafkaRebalance": "the operator moves replicas itself: see spec.rebalance of the LogCluster, and" +
		" kubectl heartwood rebalance",
}

func (s *source) kind() string {
	kind := s.text("kind")
	if version := s.text("apiVersion"); strings.HasPrefix(version, group+"/") {
		return kind
	}
	return "" // a kind of another group can have the same name
}

// object returns the kind and name for remarks.
func (s *source) object() string {
	return s.text("kind") + "/" + s.name()
}

func (s *source) name() string      { return s.child("metadata").text("name") }
func (s *source) namespace() string { return s.child("metadata").text("namespace") }

// cluster returns the name of the Kafka to which a pool, topic or user belongs.
func (s *source) cluster() string {
	return s.child("metadata").child("labels").text(clusterLabel)
}

func (s *source) clusterKey() string { return s.namespace() + "/" + s.cluster() }

// result is a conversion in progress.
type result struct {
	source  *source
	remarks []Remark
}

// lost adds a remark about a loss.
func (r *result) lost(path, format string, args ...any) {
	r.remarks = append(r.remarks,
		Remark{r.source.object(), path, fmt.Sprintf(format, args...), true})
}

// note adds a remark about something that needs no counterpart.
func (r *result) note(path, format string, args ...any) {
	r.remarks = append(r.remarks,
		Remark{r.source.object(), path, fmt.Sprintf(format, args...), false})
}

// metadata converts the name, namespace, labels and annotations.
func (r *result) metadata() metav1.ObjectMeta {
	// The accessors above have read the metadata; this is the reading that counts.
	s := newSource("metadata", r.source.child("metadata").content)
	meta := metav1.ObjectMeta{Name: s.text("name"), Namespace: s.text("namespace")}
	s.skip("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid",
		"finalizers", "selfLink", "ownerReferences")
	meta.Labels = r.strings(s.child("labels"))
	meta.Annotations = r.strings(s.child("annotations"))
	for _, path := range s.unread() {
		r.lost(path, "not a valid field of metadata")
	}
	return meta
}

// strings returns labels or annotations without Strimzi's and kubectl's own.
func (r *result) strings(s *source) map[string]string {
	kept := map[string]string{}
	for name := range s.content {
		switch prefix, _, _ := strings.Cut(name, "/"); {
		case name == clusterLabel, prefix == "kubectl.kubernetes.io":
			s.skip(name)
		case strings.HasSuffix(prefix, "strimzi.io"):
			s.skip(name)
			r.annotation(s, name)
		default:
			kept[name] = s.text(name)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// annotation adds the remark for a label or annotation of Strimzi.
func (r *result) annotation(s *source, name string) {
	switch name {
	case "strimzi.io/kraft", "strimzi.io/node-pools":
		return // the only architecture since Strimzi 0.46
	case managedAnnotation:
		if s.text(name) == "false" {
			r.lost(s.at(name), "a Topic is the topic itself, so it is always managed")
		}
		return
	}
	r.lost(s.at(name), "Heartwood does not know this annotation or label of Strimzi")
}

// document returns the result with a remark for each field that was not read.
func (r *result) document(object metav1.Object, reasons map[string]string) Document {
	r.source.skip("metadata", "status")
	for _, path := range r.source.unread() {
		if strings.HasPrefix(path, "metadata") {
			continue // metadata adds these remarks
		}
		r.lost(path, "%s", reason(path, reasons))
	}
	slices.SortStableFunc(r.remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path))
	})
	return Document{Object: object, Remarks: r.remarks}
}

// reason returns the reason of the longest path in reasons that is a part of the given path.
func reason(path string, reasons map[string]string) string {
	longest, text := "", "has no counterpart, or its value is not valid here"
	for part, why := range reasons {
		if strings.Contains("."+path+".", "."+part+".") && len(part) > len(longest) {
			longest, text = part, why
		}
	}
	return text
}

// check validates all results as the API server does.
func check(documents []Document) error {
	var faults []error
	for _, document := range documents {
		if document.Object == nil {
			continue
		}
		content, err := unstructured(document.Object)
		if err == nil {
			err = manifest.Check(content)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", kindOf(document.Object), err))
		}
	}
	return errors.Join(faults...)
}

func kindOf(object metav1.Object) string {
	switch object.(type) {
	case *v1alpha1.LogCluster:
		return "LogCluster/" + object.GetName()
	case *v1alpha1.Topic:
		return "Topic/" + object.GetName()
	}
	return "LogUser/" + object.GetName()
}
