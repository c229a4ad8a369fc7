// Package v1alpha1 defines Heartwood's resources LogCluster, Topic, Partition and LogUser in the
// API group heartwood.dev.
//
// It is the interface between operator and brokers: the operator writes these resources, brokers
// read them, and `heartwood dev` reads the same manifests without Kubernetes. It depends on
// apimachinery only.
//
// Rules of the API: no floats (percentages are integers, sizes are resource.Quantity, durations are
// metav1.Duration); a field that topicDefaults may default has no default in the schema (see
// TopicSettings); every validation is a schema or CEL rule of the CRD, with a message that says
// what to do.
//
// +kubebuilder:object:generate=true
// +groupName=heartwood.dev
package v1alpha1
