package v1alpha1

// BrokerVolume is a broker's volume, as measured by the broker.
type BrokerVolume struct {
	// Pressure is the storage pressure: None, Warn, Clean, Reject or Reserve (spec.storage.pressure).
	Pressure string `json:"pressure"`
	// UsedPercent is the percentage of the volume that is used.
	UsedPercent int32 `json:"usedPercent"`
	// TotalBytes is the size of the volume.
	TotalBytes int64 `json:"totalBytes"`
	// ReclaimableBytes is the number of bytes that the cleaner can free, as far as this number is
	// known.
	ReclaimableBytes int64 `json:"reclaimableBytes"`
}

// Values of BrokerVolume.Pressure at which the operator assigns no new replicas to the broker. The
// other values are None, Warn and Clean.
const (
	PressureWarn    = "Warn"
	PressureClean   = "Clean"
	PressureReject  = "Reject"
	PressureReserve = "Reserve"
)

// ConditionStoragePressure is True on a LogCluster if a broker's volume is fuller than
// spec.storage.pressure.warnPercent.
const ConditionStoragePressure = "StoragePressure"

// Reasons of ConditionStoragePressure, besides the levels Warn, Clean, Reject and Reserve.
const (
	// ReasonEnoughSpace: no volume is fuller than spec.storage.pressure.warnPercent.
	ReasonEnoughSpace = "EnoughSpace"
)

// ReasonStoragePressure is a reason of condition Ready on a Topic: new partitions are not assigned,
// because the volumes of too many brokers are almost full.
const ReasonStoragePressure = "StoragePressure"

// Full reports whether the volume is too full for new replicas. The volume can be nil.
func (v *BrokerVolume) Full() bool {
	return v != nil && (v.Pressure == PressureReject || v.Pressure == PressureReserve)
}

// FullBrokers returns the ids of the brokers that get no new replicas, because their volumes are
// almost full.
func (c *LogCluster) FullBrokers() map[int32]bool {
	full := map[int32]bool{}
	for i := range c.Status.Brokers {
		if c.Status.Brokers[i].Volume.Full() {
			full[c.Status.Brokers[i].ID] = true
		}
	}
	return full
}
