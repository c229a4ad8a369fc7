package metadata

import (
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pressure"
)

// ResolvePressure returns the thresholds of storage pressure of a LogCluster, which may be nil.
func ResolvePressure(cluster *v1alpha1.LogCluster) pressure.Thresholds {
	resolved := pressure.Default()
	if cluster == nil || cluster.Spec.Storage.Pressure == nil {
		return resolved
	}
	spec := cluster.Spec.Storage.Pressure
	for _, field := range []struct {
		from *int32
		to   *int
	}{{spec.Warn, &resolved.Warn}, {spec.Clean, &resolved.Clean}, {spec.Reject, &resolved.Reject}} {
		if field.from != nil {
			*field.to = int(*field.from)
		}
	}
	return resolved
}
