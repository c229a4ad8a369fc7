package metadata

import "heartwood.dev/heartwood/api/v1alpha1"

// VolumeReporter is a Store to which brokers report the state of their volumes.
type VolumeReporter interface {
	// ReportVolume publishes the volume of the broker that uses the store. It returns at once. It may
	// be called before Run. A report remains valid until the next one.
	ReportVolume(volume v1alpha1.BrokerVolume)
}
