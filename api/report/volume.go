package report

// Volumes is the response of GET /api/v1/volumes: the volumes of the brokers of the process.
type Volumes struct {
	// Volumes omits brokers that cannot measure their volume.
	Volumes []Volume `json:"volumes"`
}

// Volume is the volume of a broker, as the broker has measured it less than two seconds ago. Sizes
// are bytes.
type Volume struct {
	Broker int32 `json:"broker"`
	// Pressure is the storage pressure: None, Warn, Clean, Reject or Reserve. From Reject on the
	// broker refuses produce requests of clients.
	Pressure string `json:"pressure"`
	// UsedPercent is the used share, without the space that is reserved for root, as in df.
	UsedPercent int32 `json:"usedPercent"`
	TotalBytes  int64 `json:"totalBytes"`
	// FreeBytes is the number of bytes that the broker can still write.
	FreeBytes int64 `json:"freeBytes"`
	// RejectFreeBytes is the number of free bytes at which Reject begins.
	RejectFreeBytes int64 `json:"rejectFreeBytes"`
	// ReclaimableBytes is the number of bytes that the cleaner can free, summed over the logs of which
	// it is known.
	ReclaimableBytes int64 `json:"reclaimableBytes"`
	// Message describes the pressure and the remedy for people; absent without pressure.
	Message string `json:"message,omitempty"`
}
