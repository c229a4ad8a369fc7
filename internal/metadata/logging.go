package metadata

import (
	"log/slog"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// ResolveLogLevel returns the log level that a LogCluster sets for its brokers, or nil if it sets
// none. cluster may be nil. An unknown level, which the API server rejects, counts as none.
func ResolveLogLevel(cluster *v1alpha1.LogCluster) *slog.Level {
	if cluster == nil || cluster.Spec.Logging == nil {
		return nil
	}
	var level slog.Level
	if level.UnmarshalText([]byte(cluster.Spec.Logging.Level)) != nil {
		return nil
	}
	return &level
}
