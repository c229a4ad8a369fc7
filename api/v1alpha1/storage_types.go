package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Storage configures each broker's volume.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) || !has(oldSelf.className)",message="className cannot be removed: write the name of a StorageClass"
type Storage struct {
	// Size is the volume's size, at least 100Mi. When the size is raised, the operator grows the
	// volumes, if their StorageClass allows it. The size can be lowered only to the size of the
	// largest volume, because volumes cannot shrink (condition StorageResized). Default 10Gi.
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('100Mi')) >= 0",message="write a volume size of at least 100Mi, such as 10Gi"
	Size resource.Quantity `json:"size,omitzero"`
	// ClassName is the name of the StorageClass. When it is changed, the operator replaces the volumes
	// of other classes, one broker after the other. Each broker then copies its replicas from other
	// brokers. The name cannot be removed. Default: the default StorageClass of the Kubernetes
	// cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`
	// ReclaimPolicy determines what happens to the volumes when the LogCluster is deleted: Retain or
	// Delete. Default Retain.
	// +optional
	// +kubebuilder:default=Retain
	ReclaimPolicy ReclaimPolicy `json:"reclaimPolicy,omitempty"`
	// Pressure contains the used shares of a volume above which its broker protects the remaining
	// space.
	// +optional
	Pressure *StoragePressure `json:"pressure,omitempty"`
}

// StoragePressure contains the used shares of a broker's volume, in percent, at which the broker
// begins to protect the remaining space. A level ends when the share is two percentage points below
// its threshold. Changes take effect immediately.
//
// The share is calculated as in df: space that is reserved for root does not count. A default
// threshold applies only if little space is free, unless a higher threshold is set. So a broker on
// a large disk, which it may share with other programs, is not limited while much space is free.
//
// +kubebuilder:validation:XValidation:rule="(has(self.warnPercent) ? self.warnPercent : 80) <= (has(self.cleanPercent) ? self.cleanPercent : 85)",fieldPath=".warnPercent",message="warnPercent must not be more than cleanPercent, by default 85: lower warnPercent, or raise cleanPercent"
// +kubebuilder:validation:XValidation:rule="(has(self.cleanPercent) ? self.cleanPercent : 85) <= (has(self.rejectPercent) ? self.rejectPercent : 92)",fieldPath=".cleanPercent",message="cleanPercent must not be more than rejectPercent, by default 92: lower cleanPercent, or raise rejectPercent"
type StoragePressure struct {
	// WarnPercent is the share at which condition StoragePressure of the LogCluster becomes True.
	// Default 80, if less than 50 GiB is free (16 segments, if that is more).
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	WarnPercent *int32 `json:"warnPercent,omitempty"`
	// CleanPercent is the share at which the cleaner begins to reclaim as much as it can. It compacts
	// the logs with the most garbage first, regardless of their dirty ratios, and includes the records
	// of active segments. Default 85, if less than 20 GiB is free (8 segments, if that is more).
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	CleanPercent *int32 `json:"cleanPercent,omitempty"`
	// RejectPercent is the share at which the broker begins to reject clients' produce requests with
	// NOT_ENOUGH_REPLICAS, which clients retry. Replication, committed offsets, transactions,
	// deletions and the cleaner continue. They stop appending when only the space of two segments, or
	// half of the space above reject, is left for the cleaner. Default 92, if less than 5 GiB is free
	// (4 segments, if that is more).
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	RejectPercent *int32 `json:"rejectPercent,omitempty"`
}
