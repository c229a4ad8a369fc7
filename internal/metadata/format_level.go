package metadata

import "heartwood.dev/heartwood/api/v1alpha1"

// ResolveFormatLevel returns a LogCluster's format level. It returns 0 if the level is not known.
// cluster may be nil.
func ResolveFormatLevel(cluster *v1alpha1.LogCluster) int32 {
	if cluster == nil {
		return 0
	}
	return cluster.Status.FormatLevel
}
