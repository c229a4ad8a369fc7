package metadata

import "heartwood.dev/heartwood/api/v1alpha1"

// ResolveFormatLevel returns the format level of a LogCluster, which may be nil; 0 if it is not
// known.
func ResolveFormatLevel(cluster *v1alpha1.LogCluster) int32 {
	if cluster == nil {
		return 0
	}
	return cluster.Status.FormatLevel
}
