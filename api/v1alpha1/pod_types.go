package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pod configures the brokers' pods. Its fields have the same meaning as in a Kubernetes pod. A
// change restarts the brokers, one after the other.
type Pod struct {
	// NodeSelector restricts the brokers to nodes with these labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations allow the brokers to run on nodes with matching taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// Affinity is the pods' affinity, in addition to the spread of brokers across racks and nodes. The
	// API server checks it when the operator applies it. An invalid affinity makes condition Applied
	// False.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Affinity *runtime.RawExtension `json:"affinity,omitempty"`
	// PriorityClassName is the name of the pods' PriorityClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// ImagePullSecrets are Secrets with which Kubernetes pulls the brokers' image.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []SecretName `json:"imagePullSecrets,omitempty"`
	// Annotations are annotations of the pods. Heartwood's own annotations cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('heartwood.dev/'))",message="annotations of heartwood.dev are set by the operator: choose another prefix"
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are labels of the pods. The labels with which the operator and Services select brokers
	// cannot be set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('heartwood.dev/') && !key.startsWith('app.kubernetes.io/') && !key.startsWith('apps.kubernetes.io/') && !key.startsWith('statefulset.kubernetes.io/') && key != 'controller-revision-hash')",message="labels of heartwood.dev, app.kubernetes.io, apps.kubernetes.io and statefulset.kubernetes.io, and controller-revision-hash, are set by Kubernetes and the operator: choose another label"
	Labels map[string]string `json:"labels,omitempty"`
}

// Toleration allows a pod to run on a node with a matching taint.
type Toleration struct {
	// Key is the taint's key; absent, with operator Exists, for all taints.
	// +optional
	Key string `json:"key,omitempty"`
	// Operator is Exists or Equal. Default Equal.
	// +optional
	// +kubebuilder:validation:Enum=Exists;Equal
	Operator string `json:"operator,omitempty"`
	// Value is the taint's value, with operator Equal.
	// +optional
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute; absent for all effects.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// TolerationSeconds is the time for which a taint with effect NoExecute is tolerated; absent:
	// forever.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// SecretName names a Secret in the LogCluster's namespace.
type SecretName struct {
	// Name is the Secret's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RackSpread says whether brokers must be spread across racks.
// +kubebuilder:validation:Enum=Preferred;Required
type RackSpread string

const (
	// RackSpreadPreferred spreads brokers across racks as far as possible.
	RackSpreadPreferred RackSpread = "Preferred"
	// RackSpreadRequired leaves a broker's pod pending if it would make the numbers of brokers in the
	// racks differ by more than one.
	RackSpreadRequired RackSpread = "Required"
)

// Validate checks a rule that the schema cannot express: affinity must be a valid Kubernetes
// affinity.
func (p *Pod) Validate() error {
	if p == nil || p.Affinity == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(p.Affinity.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&corev1.Affinity{}); err != nil {
		return fmt.Errorf("decode pod.affinity: %w", err)
	}
	return nil
}
