package report

// Volumes is the response of GET /api/v1/volumes: the volumes of this process's brokers.
type Volumes struct {
	// Volumes omits brokers that cannot measure their volume.
	Volumes []Volume `json:"volumes"`
}

// Volume is a broker's volume, which the broker measured less than two seconds ago. Sizes are
// bytes.
type Volume struct {
	Broker int32 `json:"broker"`
	// Pressure is the storage pressure: None, Warn, Clean, Reject or Reserve. From Reject on, the
	// broker rejects clients' produce requests.
	Pressure string `json:"pressure"`
	// UsedPercent is the percentage of the volume that is used. As in df, the space reserved for root
	// does not count.
	UsedPercent int32 `json:"usedPercent"`
	TotalBytes  int64 `json:"totalBytes"`
	// FreeBytes is the number of bytes that the broker can still write.
	FreeBytes int64 `json:"freeBytes"`
	// RejectFreeBytes is the number of free bytes at which level Reject begins.
	RejectFreeBytes int64 `json:"rejectFreeBytes"`
	// ReclaimableBytes is the number of bytes that the cleaner can free, summed over the logs for
	// which this number is known.
	ReclaimableBytes int64 `json:"reclaimableBytes"`
	// Message describes the pressure, and what a user can do about it. It is absent without pressure.
	Message string `json:"message,omitempty"`
}
