package metadata

import (
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pressure"
)

// ResolvePressure returns a LogCluster's thresholds of storage pressure. cluster may be nil.
func ResolvePressure(cluster *v1alpha1.LogCluster) pressure.Thresholds {
	resolved := pressure.Default()
	if cluster == nil || cluster.Spec.Storage.Pressure == nil {
		return resolved
	}
	spec := cluster.Spec.Storage.Pressure
	for _, field := range []struct {
		from  *int32
		to    *int
		level pressure.Level
	}{{spec.WarnPercent, &resolved.Warn, pressure.Warn},
		{spec.CleanPercent, &resolved.Clean, pressure.Clean},
		{spec.RejectPercent, &resolved.Reject, pressure.Reject}} {
		if field.from != nil {
			*field.to, resolved.Exact = int(*field.from), field.level
		}
	}
	return resolved
}
