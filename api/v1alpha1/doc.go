// Package v1alpha1 defines Heartwood's resources LogCluster, Topic, PartitionSet and LogUser in the
// API group heartwood.dev.
//
// These resources are the interface between operator and brokers: the operator writes them, brokers
// read them, and `heartwood dev` reads the same manifests without Kubernetes. The package depends
// only on apimachinery.
//
// The API has three rules. It uses no floats: percentages are integers, sizes are
// resource.Quantity, durations are metav1.Duration. A field that topicDefaults can default has no
// default in the schema (see TopicSettings). Every validation is a schema or CEL rule of the CRD,
// with a message that says what to do.
//
// +kubebuilder:object:generate=true
// +groupName=heartwood.dev
package v1alpha1
