package v1alpha1

// ConditionStorageResized is True on a LogCluster if every volume has at least spec.storage.size,
// and no claim requests more.
const ConditionStorageResized = "StorageResized"

// Reasons of ConditionStorageResized, besides ReasonPaused.
const (
	// ReasonResized: every volume has at least spec.storage.size.
	ReasonResized = "Resized"
	// ReasonResizing: volumes or their file systems are growing.
	ReasonResizing = "Resizing"
	// ReasonClassCannotExpand: the StorageClass of a claim does not allow its volume to grow.
	ReasonClassCannotExpand = "ClassCannotExpand"
	// ReasonResizeFailed: the API server has refused the growth of a claim, or the driver of its
	// volume has failed; the message contains the error.
	ReasonResizeFailed = "ResizeFailed"
	// ReasonGrowthWithdrawn: somebody has lowered the request of a claim whose growth had failed.
	ReasonGrowthWithdrawn = "GrowthWithdrawn"
	// ReasonShrinkRefused: a volume or a claim is larger than spec.storage.size. It is kept.
	ReasonShrinkRefused = "ShrinkRefused"
)

// RestartVolumeResized is a value of BrokerStatus.RestartReason: the volume has grown, and its file
// system grows when a pod mounts it.
const RestartVolumeResized = "VolumeResized"

// RestartStorageClassChanged is a value of BrokerStatus.RestartReason: the volume is replaced by
// one of spec.storage.className.
const RestartStorageClassChanged = "StorageClassChanged"

// FinalizerReplaceVolume is a finalizer on the pod of a broker that is being stopped so that its
// volume is replaced. It keeps the broker from starting again before the claim is deleted.
const FinalizerReplaceVolume = "heartwood.dev/replace-volume"

// EventVolumeKept is the reason of an event: the volume of a broker was not replaced.
const EventVolumeKept = "VolumeKept"

// ReasonApplying is a reason of ConditionApplied: the StatefulSet is being replaced without its
// pods, because the templates of its volume claims have changed.
const ReasonApplying = "Applying"
