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
	// ReasonClassCannotExpand: a claim's StorageClass does not allow its volume to grow.
	ReasonClassCannotExpand = "ClassCannotExpand"
	// ReasonResizeFailed: the API server has rejected the growth of a claim, or the volume's driver
	// has failed. The message contains the error.
	ReasonResizeFailed = "ResizeFailed"
	// ReasonGrowthWithdrawn: a claim's growth had failed, and a user has lowered the claim's request.
	ReasonGrowthWithdrawn = "GrowthWithdrawn"
	// ReasonShrinkRefused: a volume or a claim is larger than spec.storage.size. It keeps its size.
	ReasonShrinkRefused = "ShrinkRefused"
)

// RestartVolumeResized is a value of BrokerStatus.RestartReason: the volume has grown, and the file
// system will grow when a pod mounts it.
const RestartVolumeResized = "VolumeResized"

// RestartStorageClassChanged is a value of BrokerStatus.RestartReason: the volume is being replaced
// by a volume with the class spec.storage.className.
const RestartStorageClassChanged = "StorageClassChanged"

// FinalizerReplaceVolume is a finalizer on the pod of a broker that is being stopped for the
// replacement of its volume. It prevents the broker from starting again before the claim is
// deleted.
const FinalizerReplaceVolume = "heartwood.dev/replace-volume"

// EventVolumeKept is the reason of an event: a broker's volume was not replaced.
const EventVolumeKept = "VolumeKept"

// ReasonApplying is a reason of ConditionApplied: the StatefulSet is being replaced without its
// pods, because its volume claim templates have changed.
const ReasonApplying = "Applying"
