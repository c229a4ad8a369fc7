// Package v1alpha1 holds Heartwood's resources: LogCluster, Topic and Partition, in the group
// heartwood.dev.
//
// It is the one place where the two halves of Heartwood meet: the operator writes what these types
// say, the brokers read it, and `heartwood dev` reads the same manifests without a cluster. It
// depends on apimachinery alone.
//
// Rules of the API: no floats (percentages are integers, sizes are resource.Quantity, durations are
// metav1.Duration); a field that a LogCluster may default for its topics has no default in the
// schema (see TopicSettings); every validation is a schema or CEL rule in the CRD, with a message
// that says what to do.
//
// +kubebuilder:object:generate=true
// +groupName=heartwood.dev
package v1alpha1
